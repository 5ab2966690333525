"""spec: the description of every field, and the rules and limits that core's table lacks."""

from crd import shortcuts
from crd.core import TABLE, names_of, spelled
from crd.names import IDENTIFIER, INDEX_LIST, LABEL, QUALIFIED_NAME, SUBDOMAIN, listed, matches
from crd.schema import (DURATION, IN_SCHEMA, above_zero, at_most, boolean, choice, duration,
                        integer, listing, mapping, number, quantity, rule, struct, text, whole)
from crd.shortcuts import name_of
from crd.trainer import rules as trainer_rules, trainer


def _what_runs(pod):
    return {
        **shortcuts.fields(pod.variable_source(), pod.variables_source()),
        "launch": choice(
            "PerProcess starts the command once for each rank. PerMachine starts it once for each "
            "machine, for torchrun or a program that starts the ranks itself."),
        "framework": choice("The framework. It selects the variables and services of a process."),
        "mpi": struct("How the ranks of an MPI program start, with framework Mpi.", {
            "start": choice(
                "Launcher: machine 0 runs the command, an mpirun, which reaches the others through "
                "the agents. Pmi: the agents start the ranks and answer PMI-1 (MPICH, Intel MPI). "
                "Pmix: the agents start the ranks, and a helper answers PMIx (Open MPI 4 and 5)."),
        }),
        "prestart": choice(
            "Parks a second Python interpreter beside each rank, its imports done, for the next "
            "generation. Auto (if possible and memory has room), Always or Never. No effect with "
            "launch PerMachine or trainer."),
        "prestartExclude": listing("Top-level packages that parked interpreters do not import, as "
                                   "in wandb.", text(
            "", rule(matches(IDENTIFIER), "must be a top-level package, as in torch"))),
        "trainer": trainer(),
        "template": pod.template(),
    }


def amount(description, most, *more):
    return quantity(description, lambda q: [above_zero(q), at_most(q, most)]
                    + [each(q) for each in more])


def _resources():
    return {
        "resourcesPerProcess": struct(
            "Resources of each process. The worker container requests processesPerMachine times "
            "this.", {
                "gpu": integer("GPUs. With trainer 0 or 1."),
                "gpuResource": text("The resource that gpu counts.", rule(
                    matches(QUALIFIED_NAME), "must name a resource, as in nvidia.com/gpu")),
                "cpu": amount("Cores, as in 12 or 500m.", "4096"),
                "memory": amount("Memory, as in 110Gi.", "64Ti", whole),
            }, filled=True),
        "resourcesPerMachine": mapping(
            "Resources that are counted by machine, as in rdma/hca: 1 or hugepages-2Mi: 5Gi.",
            quantity("", lambda q: [(f"!{q}.isLessThan(quantity('0'))", "must be 0 or more"),
                                    at_most(q, "8Pi")]),
            rule(f"self.all(name, {matches(QUALIFIED_NAME, 'name')})",
                 "must name resources, as in rdma/hca"),
            *[rule(f"!('{name}' in self)", f"write it as spec.resourcesPerProcess.{name}, which is "
                   "multiplied by processesPerMachine") for name in ("cpu", "memory")]),
        "sharedMemory": amount("Size of /dev/shm, counted within memory, as in 16Gi.", "8Pi",
                               whole),
    }


def _place():
    label = rule(f"self == '' || {matches(QUALIFIED_NAME)}",
                 "must be a node label, as in topology.kubernetes.io/zone")
    mapped = struct("", {
        "cpus": text("CPUs, as in 0-7,16-23.",
                     rule(matches(INDEX_LIST), "must be CPUs, as in 0-7,16-23")),
        "memory": text("NUMA nodes to take memory from. Absent: the nodes of the CPUs.",
                       rule(f"self == '' || {matches(INDEX_LIST)}",
                            "must be NUMA nodes, as in 0 or 0-1")),
    }, required=["cpus"])
    return {
        "topology": struct("How processes are bound within a machine.", {
            "bind": choice(
                "The cores of each process. Node: the cores of its GPUs' NUMA nodes, or its share "
                "of the cores. Socket: all cores of those nodes' sockets. CoreComplex: the cores "
                "under one last-level cache. Exclusive: cores that no other process has. "
                "Interleave: all cores, with memory spread over all nodes. Map: the CPUs in map. "
                "None: any core."),
            "map": listing("With bind Map, one entry for each process of a machine, in order of "
                           "rank.",
                           mapped),
            "memoryPolicy": choice(
                "The NUMA nodes of each process's memory. Preferred: the nodes it is bound to, "
                "while they have room. Strict: only these. Interleave: these in turn, page by "
                "page. None: the node where the process first touches the page."),
            "policy": choice("Required: each pod is Guaranteed, so that kubelet's static policy "
                             "gives it its own cores, and a misaligned machine is replaced on "
                             "another node. Preferred and None: condition TopologyAligned only "
                             "reports it."),
            "gpuVisibility": choice("Shared: a process sees all GPUs of its machine. Isolated: it "
                                    "sees only its own, counted from 0, and LOCAL_RANK is 0."),
        }, rule("self.bind != 'None' || !(self.memoryPolicy in ['Strict', 'Interleave'])",
                "needs processes that are bound: any bind but None", ".memoryPolicy"),
            rule("self.bind != 'None' || self.policy != 'Required'",
                 "Required needs any bind but None", ".policy"),
            rule("self.bind == 'Map' || !has(self.map) || self.map.size() == 0", "needs bind: Map",
                 ".map"), filled=True),
        "placement": struct("The nodes of the machines.", {
            "onePerNode": choice(
                "At most one machine of the job on a node: Required, Preferred or None (any "
                "number). Auto: Required with GPUs, because GPUs do not reach across two pods of a "
                "node; else Preferred."),
            "topologyKey": text("Keeps the machines under one value of this node label.", label),
            "topologyLevels": listing(
                "Further node labels, from near to far (rack, then block). If one value of "
                "topologyKey cannot hold all machines, they stay under one value of the "
                "next label.",
                text("", rule(matches(QUALIFIED_NAME), label["message"]))),
            "topologyMode": choice(
                "Preferred: nearer is better. Required: all machines share a value of topologyKey, "
                "or of the last of topologyLevels; the nearer labels stay preferred."),
        }, rule("self.topologyMode != 'Required' || "
                "(has(self.topologyKey) && self.topologyKey != '')",
                "Required needs topologyKey, the node label whose value the machines share",
                ".topologyMode"),
            rule("!has(self.topologyLevels) || self.topologyLevels.size() == 0 || "
                 "(has(self.topologyKey) && self.topologyKey != '')",
                 "needs topologyKey, the label of the nearest place", ".topologyLevels"),
            filled=True),
        "scheduling": struct("How the scheduler gives the machines their nodes.", {
            "gang": choice(
                "All machines get a node together, or none does. Kubernetes: by its own PodGroup, "
                "if the cluster has them (1.36, alpha). Coscheduling: by a plugin of "
                "scheduler-plugins, which the pods' scheduler must have. Volcano: by its "
                "scheduler, unless schedulerName names another."),
        }, filled=True),
        "network": struct("How machines find each other.", {
            "hostnames": boolean(
                "Gives each machine a DNS name, as in gpt-3.gpt. false: machines have only "
                "addresses, and no machine waits for DNS records."),
        }, filled=True),
        "elastic": struct("Lets the gang run with fewer machines while others find no node.", {
            "minMachines": integer("The fewest machines with which the gang runs."),
            "sizes": listing("Allowed numbers of machines, ascending. Absent: any. numMachines is "
                             "always allowed.", integer("")),
            "shrinkAfter": duration("How long a machine may find no node before the gang continues "
                                    "without it.", "0s", "24h"),
            "growAfter": duration("How long the gang keeps a size before it grows at a checkpoint.",
                                  "0s", "24h"),
        }, rule("!has(self.sizes) || (self.sizes.isSorted() && "
                "self.sizes.all(a, self.sizes.exists_one(b, b == a)))",
                "must ascend, as in [2, 4, 8]", ".sizes")),
        "spareMachines": integer("Spare pods with the resources and image of a machine. The "
                                 "replacement of a lost machine takes the node of a spare."),
    }


def _failure_policy():
    about_end = "!has(self.metric) || self.metric == ''"
    about_metric = "has(self.metric) && self.metric != ''"
    back = "has(self.action) && self.action == 'RestartFromEarlier'"
    matcher = struct("", {
        "exitCodes": listing("Exit codes. The process must have ended with one of them.",
                             integer("")),
        "signals": listing("Signals. The process must have died of one of them.", choice("")),
        "stderr": text("An RE2 expression that must match in the process's last lines of stderr, as "
                       "many as fit into 1 KiB.",
                       # A bad expression fails the evaluation, so a policy cannot report it.
                       {**rule("'x'.matches(self) in [true, false]", "is not a regular expression "
                               "(https://github.com/google/re2/wiki/Syntax)"), IN_SCHEMA: True}),
        "metric": text("A figure that ranks report or print, such as loss. The rule is about its "
                       "values and not about the end of a process."),
        "is": choice("Bad values of the metric. NotFinite: NaN and infinity."),
        "above": number("Bad values of the metric: those above this one, and those that are not "
                        "finite."),
        "risesBy": text("Bad values of the metric: those above so many times its lowest value of "
                        "the last `within` steps, as in 3x, and those that are not finite.",
                        rule(f"self == '' || ({matches('[0-9]{1,6}([.][0-9]{1,6})?x')} && "
                             "double(self.replace('x', '')) > 1.0)",
                             "must be a factor above 1, as in 3x")),
        "within": integer("Steps in which `risesBy` looks for the lowest value."),
        "for": integer("The rule matches if each value is bad over so many steps."),
        "skipSteps": integer("With RestartFromEarlier: the ranks leave out the data of the bad "
                             "steps, and of so many steps in all, up to the last bad one "
                             "(LOCKSTEP_SKIP_STEPS). 0: they leave out none."),
        "atMost": integer("With RestartFromEarlier: restarts of this kind before the job fails."),
        "action": choice("What follows a failure that matches. Default: Restart, and Report in a "
                         "rule with `metric`."),
    }, rule(f"{about_metric} || (has(self.exitCodes) && self.exitCodes.size() > 0) || "
            "(has(self.signals) && self.signals.size() > 0) || "
            "(has(self.stderr) && self.stderr != '')",
            "matches nothing; write exitCodes, signals or stderr"),
        rule("!(has(self.exitCodes) && self.exitCodes.size() > 0 && "
             "has(self.signals) && self.signals.size() > 0)",
             "matches nothing: no process ends with an exit code and by a signal; write two rules"),
        rule(f"{about_end} || (!(has(self.exitCodes) && self.exitCodes.size() > 0) && "
             "!(has(self.signals) && self.signals.size() > 0) && "
             "!(has(self.stderr) && self.stderr != ''))",
             "a rule about a metric has no exitCodes, signals or stderr; write two rules"),
        rule(f"{about_end} || (has(self.is) ? 1 : 0) + (has(self.above) ? 1 : 0) + "
             "(has(self.risesBy) && self.risesBy != '' ? 1 : 0) == 1",
             "needs one of is: NotFinite, above and risesBy beside metric"),
        rule(f"{about_metric} || (!has(self.is) && !has(self.above) && "
             "!(has(self.risesBy) && self.risesBy != '') && self.within == 100 && "
             "self['for'] == 1 && self.skipSteps == 0 && self.atMost == 3)",
             "is, above, risesBy, within, for, skipSteps and atMost need metric"),
        rule(f"{about_end} || !has(self.action) || "
             "self.action in ['RestartFromEarlier', 'Fail', 'Report']",
             "must be RestartFromEarlier, Fail or Report in a rule about a metric", ".action"),
        rule(f"{about_metric} || !has(self.action) || "
             "self.action in ['Restart', 'Fail', 'ReplaceMachine']",
             "must be Restart, Fail or ReplaceMachine in a rule without metric", ".action"),
        rule(f"{about_end} || self.skipSteps == 0 || ({back})",
             "needs action: RestartFromEarlier", ".skipSteps"))
    return struct("How Lockstep handles failures.", {
        "maxRestarts": integer("Restarts after failures of the application: of the whole gang, "
                               "or of a rank alone. 0: the first failure ends the job."),
        "maxMachineReplacements": integer("Replacements of lost machines before the job fails. 0: "
                                          "the first loss ends the job."),
        "resetAfter": duration("Both budgets are full again after this time without a failure.",
                               "1s", "8760h"),
        "restartGracePeriod": duration("Time from SIGTERM to SIGKILL for the ranks that remain "
                                       "after a failure.", "0s", "24h"),
        "machineLostAfter": duration("How long a machine may be silent before it counts as "
                                     "lost.", "2s", "10m"),
        "stragglers": choice("What follows if a machine delays the others: Report it, or Replace "
                             "it at the next checkpoint."),
        "nodeHealth": choice("What follows if a machine's node is sick: Ignore that, or move the "
                             "machine to another node AtCheckpoint, after the next one, or Now."),
        "rules": listing("The first rule that matches a failure decides. If none matches, the "
                         "defaults in docs/reference/trainingjob.md apply.", matcher),
    }, filled=True)


# core/validate/validate.cc has the same.
STORE_URL = "^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_=+][A-Za-z0-9._=+-]*)*$"


def _store_rules():
    """What else checkpoint.url asks of the checkpoints, and what needs it."""
    def beside(expression, message, path):
        return rule(f"!has(self.url) || self.url == '' || {expression}", message, path)

    def needs(is_absent, path):
        return rule(f"(has(self.url) && self.url != '') || {is_absent}",
                    "needs spec.checkpoint.url", path)

    return [
        beside("has(self.memory.size)", "is missing beside spec.checkpoint.url: processes write "
               "checkpoints to memory, and agents upload them; write as much as 4 times a machine's "
               "part, as in 16Gi", ".memory.size"),
        beside("!has(self.path) || self.path == ''", "must be absent beside spec.checkpoint.url, "
               "which replaces the folder", ".path"),
        beside("!has(self.resume) || !self.resume.contains('/')",
               "must be Auto or Never with spec.checkpoint.url", ".resume"),
        needs("!has(self.secret) || self.secret == ''", ".secret"),
        needs(f"!has(self.keepEvery) || !self.keepEvery.matches(r'{DURATION}') || "
              "duration(self.keepEvery) == duration('0s')", ".keepEvery"),
        needs("!has(self.uploadBandwidth)", ".uploadBandwidth"),
    ]


def _time_and_logs():
    return {
        "checkpoint": struct("Checkpoints of the job.", {
            "claim": text("A PersistentVolumeClaim, mounted at path, which it needs.",
                          name_of("a PersistentVolumeClaim")),
            "path": text("The folder of the checkpoints; with lockstep run, a folder of this "
                         "computer. Absent: commits to a folder are refused.", rule(
                "self == '' || self.startsWith('/')", "must begin with / on a cluster")),
            "resume": text("The checkpoint to resume from. Auto: this job's newest complete one. "
                           "Never: none. Else the path of a checkpoint.", rule(
                               "self in ['Auto', 'Never'] || self.contains('/')",
                               "must be Auto, Never or a path that contains a /, as in ./checkpoint")),
            "memory": struct("Checkpoints in the machines' memory. Off without a size.", {
                "size": amount("Memory of each machine for checkpoints, including copies of "
                               "another machine's, as in 16Gi.", "8Pi", whole),
                "replicas": integer("Copies on other machines."),
            }, filled=True),
            "persistEvery": duration("How often the newest checkpoint in memory goes to path or "
                                     "url. 0s: only at the job's end.", "1s", "168h", or_off=True),
            "url": text("s3://BUCKET/PREFIX: an object store in place of path. Agents upload "
                        "checkpoints from memory, which needs memory.size.", rule(
                            f"self == '' || self.matches('{STORE_URL}')",
                            "must be s3://BUCKET/PREFIX: BUCKET in lower case, PREFIX of letters, digits "
                            "and ._=+-, without a slash at its end")),
            "secret": text("A Secret with the credentials of url, as AWS_ACCESS_KEY_ID and "
                           "AWS_SECRET_ACCESS_KEY. Processes don't get them. Absent: the pod's "
                           "role.", name_of("a Secret")),
            "keep": integer("How many of the newest checkpoints stay in url. Older ones are "
                            "deleted after a commit."),
            "keepEvery": duration("Also keeps one older checkpoint in url for each such time. "
                                  "0s: none.", "1s", "168h", or_off=True),
            "uploadBandwidth": amount("Most bytes a second that a machine uploads to url, as in "
                                      "200Mi. Absent: no limit.", "8Pi", whole),
        }, rule("!has(self.claim) || self.claim == '' || (has(self.path) && self.path != '')",
                "is missing; write where the claim is mounted, as in /checkpoints", ".path"),
            rule("!has(self.resume) || !self.resume.contains('/') || "
                 "(has(self.path) && self.path != '') || (has(self.url) && self.url != '')",
                 "is missing beside the checkpoint that resume names; write this job's own folder, "
                 "as in /checkpoints", ".path"),
            rule("[self.?claim] == [oldSelf.?claim]", "can't change: the job's checkpoints are on "
                 "it; make a new job", ".claim"),
            rule("[self.?url] == [oldSelf.?url]", "can't change: the job's checkpoints are there; "
                 "make a new job", ".url"),
            *_store_rules(), filled=True),
        "gracePeriod": duration("Time from SIGTERM to SIGKILL on a requested stop. The pod's "
                                "terminationGracePeriodSeconds is 15 s more; a drain must allow as "
                                "much.", "0s", "24h"),
        "health": struct("Time limits for a job without progress.", {
            "startTimeout": duration("If not all machines find a node in this time, the gang "
                                     "releases its nodes and tries again. If a machine does not "
                                     "start on its node in this time, it is tried on another node.",
                                     "1s", "168h"),
            "hangTimeout": duration("How long a process may report no progress after its first "
                                    "report. 0s: off.", "1s", "168h", or_off=True),
            "hangAction": choice("What follows if a gang makes no progress and none of its ranks "
                                 "works: Report, or after 10 minutes or more also Restart."),
        }, filled=True),
        "preflight": struct("Measures machines before ranks run on them. At most two slow machines "
                            "are replaced.", {
            "enabled": boolean("Measure matrix products, memory, the disk of the checkpoint "
                               "folder, links between machines, and GPUs."),
            "margin": number("A machine is slow if it is below the gang's median by this share, as "
                             "in 0.3.", above=0, at_most=1),
            "minGflops": number("Least fp32 matrix products of a machine's cores, in GFLOP/s. 0: "
                                "no limit.", at_least=0),
            "minMemoryGBps": number("Least memory bandwidth of a machine, in GB/s. 0: no limit.",
                                    at_least=0),
            "minDiskGBps": number("Least write rate to the checkpoint folder, in GB/s. 0: no "
                                  "limit.", at_least=0),
            "minLinkGBps": number("Least median rate of a machine's links to others, in GB/s. 0: "
                                  "no limit.", at_least=0),
        }, filled=True),
        "logs": struct("Output of the processes.", {
            "console": choice("The ranks whose output the machines' logs show. FailedOnly: those "
                              "that failed."),
            "format": choice("Prefix (the rank before each line), Raw or Json."),
            "path": text("Folder for files GENERATION/rank-RANK.stdout.log and .stderr.log, of at "
                         "most 64 MiB each and 2 GiB a machine."),
        }, filled=True),
        "progress": struct("Where the step, the total and the loss of a rank come from.", {
            "from": choice("Auto: what the program reports; until it reports, what it prints. "
                           "Reports: lockstep.report() alone. Output: what it prints alone, which "
                           "hangTimeout then counts. Never: nowhere."),
            "patterns": listing(
                "RE2 expressions for lines in a style of your own, with groups named step, total, "
                "epoch, epochs or loss.",
                text("", {**rule("'x'.matches(self) in [true, false]", "is not a regular expression "
                                 "(https://github.com/google/re2/wiki/Syntax)"), IN_SCHEMA: True},
                     rule("self.matches('[(][?]P?<(step|epoch|loss)>')",
                          "needs one of the groups step, epoch and loss, as in (?P<step>\\d+)"))),
        }, rule("!has(self.patterns) || self.patterns.size() == 0 || "
                "self.from in ['Auto', 'Output']",
                "are read in output alone; write progress.from: Auto or Output", ".patterns"),
            filled=True),
    }


def _life():
    return {
        "suspend": boolean("true stops the job and keeps its checkpoints."),
        "restartRequest": struct(
            "Asks for a new generation, uncharged. kubectl lockstep restart writes it.", {
                "id": text("Names the request. A new id is a new request.",
                           rule("self.size() > 0", "is missing; write a new id for each request, "
                                "as in the time of the request")),
                "reason": text("The reason, for status.history and events."),
                "requestedBy": text("Who asks, as the client says. Nothing proves it."),
                "atCommit": boolean("true waits until the program commits a checkpoint."),
            }, required=["id"]),
        "sync": struct("Present, as {}: users may run code of their own computers on all machines, "
                       "by kubectl lockstep sync, if they may create pods/exec.", {}),
        "activeDeadlineSeconds": integer("How long the job may run. 0: no limit."),
        "ttlSecondsAfterFinished": integer("Seconds until a finished job is deleted. Absent: "
                                           "never."),
        "successPolicy": choice(
            "The processes whose exit 0 ends the job: All, those of Machine0, or those of one Role "
            "(successRole). The others are then stopped and count as done."),
        "successRole": text("With successPolicy Role: the role whose exit 0 ends the job."),
        "roles": listing(
            "Names for ranks that do different work, in order of rank. The first role has ranks 0 "
            "to count - 1.", struct("", {
                "name": text("Value of LOCKSTEP_ROLE. With framework TensorFlow a task: chief, "
                             "worker, ps or evaluator.",
                             rule(matches(LABEL), "must be at most 63 lower-case letters, digits "
                                  "and dashes (a DNS-1123 label)")),
                "count": integer("Ranks of the role. The sum over all roles is the world size."),
                "restart": choice("What follows the death of such a rank. Gang: a new generation. "
                                  "Alone: a restart of that rank, while the others run on."),
            }, required=["name"]),
            rule("self.all(a, self.exists_one(b, b.name == a.name))",
                 "must have each name once")),
        "cleanPodPolicy": choice("Pods to delete at the end: None, Running pods, or All."),
        "managedBy": text("The controller of the job. The operator ignores a job with another "
                          "name. kueue.x-k8s.io/multikueue: the job runs on another cluster.", rule(
            matches(f"{SUBDOMAIN}/.+"),
            "must be a domain and a name, as in lockstep.dev/operator")),
    }


def _required_rules():
    """What topology.policy Required needs: kubelet gives whole cores to Guaranteed pods alone."""
    def unless(expression, message, path):
        return rule(f"self.topology.policy != 'Required' || {expression}", message, path)

    cores = ("topology.policy Required needs whole CPUs for each process, as in 12: kubelet gives "
             "only such containers their own cores")
    cpu = "quantity(string(self.resourcesPerProcess.cpu))"
    pod = "!has(self.template) || !has(self.template.spec) || "

    def guaranteed(name):
        return (f"'{name}' in c.resources.limits && (!has(c.resources.requests) || "
                f"!('{name}' in c.resources.requests) || string(c.resources.requests['{name}']) == "
                f"string(c.resources.limits['{name}']))")
    return [
        unless("has(self.resourcesPerProcess.cpu)", f"is missing; {cores}",
               ".resourcesPerProcess.cpu"),
        unless("!has(self.resourcesPerProcess.cpu) || "
               f"!isQuantity(string(self.resourcesPerProcess.cpu)) || {whole(cpu)[0]}",
               f"must be whole; {cores}", ".resourcesPerProcess.cpu"),
        unless("has(self.resourcesPerProcess.memory)",
               "is missing; topology.policy Required needs it, as in 110Gi: kubelet gives their "
               "own cores only to Guaranteed pods", ".resourcesPerProcess.memory"),
        unless(f"{pod}!has(self.template.spec.resources)",
               "remove it: if the pod has resources, kubelet gives no container its own cores, "
               "which topology.policy Required needs", ".template.spec.resources"),
        *[unless(f"{pod}!has(self.template.spec.{of}) || self.template.spec.{of}.all(c, "
                 "c.name == 'worker' || (has(c.resources) && has(c.resources.limits) && "
                 f"{guaranteed('cpu')} && {guaranteed('memory')}))",
                 "must each have limits of cpu and memory, and no other requests: topology.policy "
                 "Required needs a Guaranteed pod", f".template.spec.{of}")
          for of in ("containers", "initContainers")],
    ]


def _resource_rules():
    return [
        rule("!has(self.resourcesPerMachine) || has(self.resourcesPerProcess.cpu) || "
             "has(self.resourcesPerProcess.memory) || "
             "self.resourcesPerMachine.all(name, !name.startsWith('hugepages-'))",
             "needs spec.resourcesPerProcess.memory or cpu: a pod cannot request huge pages only",
             ".resourcesPerMachine"),
        rule("!has(self.resourcesPerMachine) || "
             "!(self.resourcesPerProcess.gpuResource in self.resourcesPerMachine)",
             "write it as spec.resourcesPerProcess.gpu, which is multiplied by processesPerMachine",
             ".resourcesPerMachine"),
        rule("!has(self.sharedMemory) || !has(self.resourcesPerProcess.memory) || "
             "!isQuantity(string(self.sharedMemory)) || "
             "!isQuantity(string(self.resourcesPerProcess.memory)) || "
             "quantity(string(self.sharedMemory)).asApproximateFloat() <= "
             "quantity(string(self.resourcesPerProcess.memory)).asApproximateFloat() * "
             "double(self.processesPerMachine)",
             "is counted within the machine's memory, which is less; write less, or raise "
             "spec.resourcesPerProcess.memory", ".sharedMemory"),
    ]


def _kueue_rules():
    """Kueue chooses the nodes of pods with its topology annotations."""
    asks = ("has(self.template) && has(self.template.metadata) && "
            "has(self.template.metadata.annotations) && self.template.metadata.annotations.exists(k, "
            "k.startsWith('kueue.x-k8s.io/podset-') && k.endsWith('-topology'))")
    return [
        rule(f"!has(self.elastic) || !({asks})",
             "must be absent with Kueue's topology annotations: if a machine has no other node, "
             "Kueue takes the nodes of the whole gang", ".elastic"),
        rule(f"self.spareMachines == 0 || !({asks})",
             "must be 0 with Kueue's topology annotations: Kueue chooses a lost machine's next node, "
             "not a spare", ".spareMachines"),
    ]


def _role_rules():
    """core/validate/validate_roles.cc."""
    def where(condition, expression, message, path=".roles"):
        return rule(f"!has(self.roles) || self.roles.size() == 0 || !({condition}) || {expression}",
                    message, path)

    alike = names_of("frameworks", "roles", False)
    tasks = "self.framework == 'TensorFlow'"
    stays = ("!has(self.failurePolicy.rules) || self.failurePolicy.rules.all(r, "
             "!has(r.action) || r.action != 'RestartFromEarlier')")
    return [
        rule("self.progress.from != 'Never' || duration(self.health.hangTimeout) == duration('0s')",
             "needs progress, and spec.progress.from is Never; write Auto, Reports or Output there",
             ".health.hangTimeout"),
        rule("self.progress.from != 'Never' || !has(self.failurePolicy.rules) || "
             "self.failurePolicy.rules.all(r, !has(r.metric) || r.metric == '')",
             "needs progress, and spec.progress.from is Never",
             ".failurePolicy.rules"),
        rule(f"{stays} || (has(self.checkpoint.path) && self.checkpoint.path != '')",
             "RestartFromEarlier needs spec.checkpoint.path, where the job's committed checkpoints "
             "are", ".failurePolicy.rules"),
        rule(f"{stays} || !has(self.checkpoint.memory.size)",
             "RestartFromEarlier does not work with spec.checkpoint.memory: write checkpoints to "
             "spec.checkpoint.path alone", ".failurePolicy.rules"),
        rule("self.progress.from != 'Never' || self.health.hangAction != 'Restart'",
             "Restart needs progress, and spec.progress.from is Never; write Auto, Reports or "
             "Output there", ".health.hangAction"),
        rule("self.successPolicy == 'Role' || !has(self.successRole) || self.successRole == ''",
             "needs successPolicy: Role", ".successRole"),
        rule("self.successPolicy != 'Role' || (has(self.successRole) && has(self.roles) && "
             "self.roles.exists(r, r.name == self.successRole))",
             "must name one of spec.roles, whose exit 0 ends the job (successPolicy: Role)",
             ".successRole"),
        where("true", "self.roles.map(r, r.count).sum() == "
              "self.numMachines * self.processesPerMachine",
              "must have as many ranks as the job (numMachines x processesPerMachine): the sum of "
              "count"),
        where(f"self.framework in {listed(alike)}", "false",
              f"must be empty with framework: {spelled(alike, 'or')}, because all of its processes "
              "have the same role"),
        where("self.launch == 'PerMachine'", "false",
              "must be empty with launch: PerMachine, because your launcher numbers the ranks"),
        where("has(self.trainer)", "false",
              "must be empty beside spec.trainer, because all of its ranks have the same role"),
        where("has(self.checkpoint.memory.size)", "self.roles.all(r, r.restart != 'Alone')",
              "must be absent if a role has restart: Alone, because a checkpoint in memory is one "
              "step of all ranks", ".checkpoint.memory.size"),
        where(tasks, "self.roles.all(r, r.name in ['chief', 'worker', 'ps', 'evaluator'])",
              "must be chief, worker, ps or evaluator, the tasks that TensorFlow knows"),
        where(tasks, "self.roles.all(r, !(r.name in ['chief', 'ps']) || r.restart != 'Alone')",
              "must be Gang for chief and ps (restart): they hold the training's variables and "
              "steps, which are lost with them"),
        where(tasks, "self.roles.all(r, r.name != 'chief' || r.count == 1)",
              "must be 1 chief: a cluster of TensorFlow has one"),
    ]


def _elastic_rules():
    """core/validate/validate_elastic.cc."""
    def need(expression, message, path):
        return rule(f"!has(self.elastic) || {expression}", message, path)

    elastic, rigid = (names_of("frameworks", "elastic", value) for value in (True, False))
    ranks = "with spec.elastic, whose generations have different numbers of ranks"
    step = ("(n * self.processesPerMachine * "
            "(has(self.trainer.microBatchSize) ? self.trainer.microBatchSize : 1))")
    return [
        need("self.elastic.minMachines <= self.numMachines", "must be at most numMachines",
             ".elastic.minMachines"),
        need("!has(self.elastic.sizes) || self.elastic.minMachines > self.numMachines || "
             "self.elastic.sizes.all(n, n >= self.elastic.minMachines && n <= self.numMachines)",
             "must lie between minMachines and numMachines", ".elastic.sizes"),
        need("!has(self.elastic.sizes) || !has(self.trainer) || "
             "self.elastic.minMachines > self.numMachines || "
             f"self.elastic.sizes.all(n, self.trainer.globalBatchSize % {step} == 0)",
             "must be numbers of machines among whose processes spec.trainer.globalBatchSize "
             "divides evenly, in micro-batches", ".elastic.sizes"),
        need(f"!(self.framework in {listed(rigid)})", f"must be {spelled(elastic, 'or')} {ranks}",
             ".framework"),
        need("!has(self.roles) || self.roles.size() == 0", f"must be empty {ranks}", ".roles"),
        need("!has(self.checkpoint.memory.size)", "must be absent with spec.elastic: a checkpoint "
                                                  "in memory is lost if a machine's part is lost",
                                                      ".checkpoint.memory.size"),
        need("!has(self.checkpoint.url) || self.checkpoint.url == ''", "must be absent with "
             "spec.elastic, whose checkpoints need a folder", ".checkpoint.url"),
        need("!self.preflight.enabled", "must be false with spec.elastic, because the gang would "
                                        "continue without the replacement of a slow machine",
                                            ".preflight.enabled"),
        need("!has(self.trainer) || (self.trainer.parallel.pipeline <= 1 && "
             "self.trainer.parallel.tensor <= 1)", "must be 1 with spec.elastic: a lost machine "
                                                   "loses a part of the model", ".trainer.parallel"),
        need("!has(self.trainer) || self.trainer.recovery != 'InPlace'", "must be Restart with "
             "spec.elastic, whose ranks may have other numbers in the next generation",
             ".trainer.recovery"),
    ]


def spec(pod):
    """`pod` gives the parts that are the API server's own: crd.pod_template.Pod."""
    return struct(
        "The desired state of the job.", {
            "numMachines": integer(
                "Number of machines. Each machine is a pod. Scaling down removes the machines "
                "with the highest indices."),
            "processesPerMachine": integer(
                "Processes on each machine. The world size is numMachines times this.",
                TABLE, TABLE,
                rule("self == oldSelf", "can't change, because it numbers the ranks for the life "
                     "of the job; make a new job")),
            **_what_runs(pod), **_resources(), **_place(), "failurePolicy": _failure_policy(),
            **_time_and_logs(), **_life(),
        }, *shortcuts.command_rules(), *shortcuts.place_rules(), *trainer_rules(),
        *_resource_rules(), *_required_rules(), *_role_rules(), *_elastic_rules(), *_kueue_rules(),
        rule("!has(self.sync) || !has(self.trainer)", "must be absent with trainer: the built-in "
             "trainer runs no code of yours", ".sync"),
        rule("self.network.hostnames || !has(self.template) || !has(self.template.spec) || "
             "!has(self.template.spec.setHostnameAsFQDN) || !self.template.spec.setHostnameAsFQDN",
             "needs spec.network.hostnames: without it a pod has no domain name",
             ".template.spec.setHostnameAsFQDN"),
        rule("self.topology.bind != 'Map' || (has(self.topology.map) ? self.topology.map.size() : 0)"
             " == self.processesPerMachine", "must hold one entry for each of processesPerMachine, "
             "in order of rank", ".topology.map"))
