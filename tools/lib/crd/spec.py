"""spec: the description of every field, and the rules and limits that core's table has not."""

from crd import shortcuts
from crd.core import TABLE
from crd.names import IDENTIFIER, INDEX_LIST, LABEL, QUALIFIED_NAME, SUBDOMAIN, matches
from crd.schema import (IN_SCHEMA, above_zero, at_most, boolean, choice, duration, integer,
                        listing, mapping, number, quantity, rule, struct, text, whole)
from crd.shortcuts import name_of
from crd.trainer import rules as trainer_rules, trainer


def _what_runs(pod):
    return {
        **shortcuts.fields(pod.variable_source(), pod.variables_source()),
        "launch": choice(
            "PerProcess starts the command once for each rank. PerMachine starts it once a "
            "machine, for torchrun or a program that starts the ranks itself."),
        "framework": choice("Which variables a process finds, and which services: its framework's."),
        "mpi": struct("How the ranks of an MPI program begin; with framework Mpi.", {
            "start": choice(
                "Launcher: command is mpirun's, on machine 0 alone, which reaches the others by "
                "the agents. Pmi: the agents start the ranks, and answer PMI-1. Pmix: likewise, and a "
                "helper of theirs answers PMIx."),
        }),
        "prestart": choice(
            "Interpreters that wait beside the ranks, with the modules imported that these import, "
            "for the next generation: Auto, where it can be and memory has room, Always, or Never."),
        "prestartExclude": listing("Top-level packages that only ranks import, as in torch.", text(
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
            "What each process needs; the worker container asks for processesPerMachine times "
            "this.", {
                "gpu": integer("GPUs."),
                "gpuResource": text("Resource that gpu counts.", rule(
                    matches(QUALIFIED_NAME), "must name a resource, as in nvidia.com/gpu")),
                "cpu": amount("Cores, as in 12 or 500m.", "4096"),
                "memory": amount("Memory, as in 110Gi.", "64Ti", whole),
            }, filled=True),
        "resourcesPerMachine": mapping(
            "What is counted by machine, as in rdma/hca: 1.",
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
        "memory": text("NUMA nodes to take memory from; absent: those that the CPUs are on.",
                       rule(f"self == '' || {matches(INDEX_LIST)}",
                            "must be NUMA nodes, as in 0 or 0-1")),
    }, required=["cpus"])
    return {
        "topology": struct("How processes are bound within a machine.", {
            "bind": choice(
                "Where each process runs. Node: the cores of its GPUs' NUMA nodes, or its share of "
                "the cores; Socket: all cores of those nodes' sockets; CoreComplex: those under one "
                "last-level cache; Exclusive: cores that no other process has; Interleave: all "
                "cores, with memory spread over all nodes; Map: as map says; None: anywhere."),
            "map": listing("With bind: Map, one entry for each process of a machine, in order.",
                           mapped),
            "memoryPolicy": choice(
                "Memory from the NUMA nodes that the process is bound to: Preferred while they have "
                "room; Strict, from no others; Interleave, page by page in turn; None, where it "
                "touches it first."),
            "policy": choice("Required: the pod also has CPU limits, so that kubelet's static policy "
                             "gives it cores of its own, and a machine that could not be aligned "
                             "is replaced elsewhere. The condition TopologyAligned tells of it."),
            "gpuVisibility": choice("Shared: a process sees all GPUs of its machine. Isolated: its "
                                    "own alone, counted from 0, with LOCAL_RANK 0."),
        }, rule("self.bind != 'None' || !(self.memoryPolicy in ['Strict', 'Interleave'])",
                "needs processes that are bound: any bind but None", ".memoryPolicy"),
            rule("self.bind != 'None' || self.policy != 'Required'",
                 "Required needs any bind but None", ".policy"),
            rule("self.bind == 'Map' || !has(self.map) || self.map.size() == 0", "needs bind: Map",
                 ".map"), filled=True),
        "placement": struct("Which nodes the machines go to.", {
            "onePerNode": choice(
                "At most one machine of the job on a node: Required, Preferred or None. Auto is "
                "Required with GPUs, else Preferred."),
            "topologyKey": text("Keep the machines under one value of this node label.", label),
            "topologyLevels": listing(
                "Further node labels, from near to far (rack, then block): where one value of "
                "topologyKey can't hold all machines, they stay under one value of the next.",
                text("", rule(matches(QUALIFIED_NAME), label["message"]))),
            "topologyMode": choice(
                "Required: all machines share a value of topologyKey or, with topologyLevels, of the "
                "last of these; the nearer ones are preferred, as all are with Preferred."),
        }, rule("self.topologyMode != 'Required' || "
                "(has(self.topologyKey) && self.topologyKey != '')",
                "Required needs topologyKey, the node label whose value the machines share",
                ".topologyMode"),
            rule("!has(self.topologyLevels) || self.topologyLevels.size() == 0 || "
                 "(has(self.topologyKey) && self.topologyKey != '')",
                 "needs topologyKey, the label of the nearest place", ".topologyLevels"),
            filled=True),
        "scheduling": struct("Who gives the machines their nodes.", {
            "gang": choice(
                "All machines get a node at once, or none does. Kubernetes: by a PodGroup of its own, "
                "where the cluster has them (1.36, alpha). Coscheduling: by the plugin of "
                "scheduler-plugins, which the scheduler of the pods must have. Volcano: by its "
                "scheduler, which the pods have unless schedulerName names another."),
        }, filled=True),
        "network": struct("How machines find each other.", {
            "hostnames": boolean(
                "Each machine has a name that leads to it, as in gpt-3.gpt. false: machines are "
                "known by their addresses alone, and there are no DNS records to wait for."),
        }, filled=True),
        "elastic": struct("Fewer machines, while others find no node.", {
            "minMachines": integer("The fewest that are enough."),
            "sizes": listing("Numbers of machines that are enough, ascending; absent: any. "
                             "numMachines always is.", integer("")),
            "shrinkAfter": duration("How long a machine may find no node before the others go on "
                                    "without it.", "0s", "24h"),
            "growAfter": duration("How long a number of machines is kept before a larger one, at a "
                                  "checkpoint.", "0s", "24h"),
        }, rule("!has(self.sizes) || (self.sizes.isSorted() && "
                "self.sizes.all(a, self.sizes.exists_one(b, b == a)))",
                "must ascend, as in [2, 4, 8]", ".sizes")),
        "spareMachines": integer("Pods that hold a node, its GPUs and the image, for the "
                                 "replacement of a lost machine."),
    }


def _failure_policy():
    matcher = struct("", {
        "exitCodes": listing("Exit codes, one of which must be the process's.",
                             integer("")),
        "signals": listing("Signals, of one of which the process must have died.", choice("")),
        "stderr": text("RE2 expression that must match among its last lines of standard error.",
                       # Evaluating it fails, which a policy can't put into words.
                       {**rule("'x'.matches(self) in [true, false]", "is no regular expression "
                               "(https://github.com/google/re2/wiki/Syntax)"), IN_SCHEMA: True}),
        "action": choice("What follows."),
    }, rule("(has(self.exitCodes) && self.exitCodes.size() > 0) || "
            "(has(self.signals) && self.signals.size() > 0) || "
            "(has(self.stderr) && self.stderr != '')",
            "matches nothing; write exitCodes, signals or stderr"),
        rule("!(has(self.exitCodes) && self.exitCodes.size() > 0 && "
             "has(self.signals) && self.signals.size() > 0)",
             "matches nothing: no process ends with an exit code and of a signal; write two rules"))
    return struct("What follows a failure.", {
        "maxRestarts": integer("Restarts for failures of the application, of the gang or of a rank alone."),
        "maxMachineReplacements": integer("Replacements of lost machines before the job fails."),
        "resetAfter": duration("After so long without a failure the budgets are whole again.",
                               "1s", "8760h"),
        "restartGracePeriod": duration("From SIGTERM to SIGKILL for the ranks that are left after "
                                       "a failure.", "0s", "24h"),
        "machineLostAfter": duration("How long a machine may be silent.", "2s", "10m"),
        "stragglers": choice("What follows when a machine keeps the others waiting: Report, or "
                             "Replace at the next checkpoint."),
        "rules": listing("The first that matches a failure says what follows; behind them stand "
                         "the defaults of docs/reference/trainingjob.md.", matcher),
    }, filled=True)


def _time_and_logs():
    return {
        "checkpoint": struct("Where checkpoints are.", {
            "claim": text("PersistentVolumeClaim that is mounted at path.",
                          name_of("a PersistentVolumeClaim")),
            "path": text("Folder of the checkpoints.", rule(
                "self == '' || self.startsWith('/')", "must begin with / on a cluster")),
            "resume": text("Auto: from this job's newest complete checkpoint; Never; or the path "
                           "of one.", rule(
                               "self in ['Auto', 'Never'] || self.contains('/')",
                               "must be Auto, Never or a path with a / in it, as in ./checkpoint")),
            "memory": struct("Checkpoints in the machines' memory; off without a size.", {
                "size": amount("Memory of a machine for them, copies of another's included, as in "
                               "16Gi.", "8Pi", whole),
                "replicas": integer("Copies on other machines."),
            }, filled=True),
            "persistEvery": duration("How often the newest one goes from memory to path; 0s: at "
                                     "the end of the job alone.", "1s", "168h", or_off=True),
        }, rule("!has(self.claim) || self.claim == '' || (has(self.path) && self.path != '')",
                "is missing; write where the claim is mounted, as in /checkpoints", ".path"),
            rule("!has(self.resume) || !self.resume.contains('/') || "
                 "(has(self.path) && self.path != '')",
                 "is missing beside the checkpoint that resume names; write the folder of this "
                 "job's own, as in /checkpoints", ".path"),
            rule("[self.?claim] == [oldSelf.?claim]", "can't change: the job's checkpoints are on "
                 "it; make a new job", ".claim"), filled=True),
        "gracePeriod": duration("From SIGTERM to SIGKILL on a requested stop.", "0s", "24h"),
        "health": struct("How long a job may show no progress.", {
            "startTimeout": duration("How long the machines may wait to be scheduled before the "
                                     "gang lets go of all and tries again; and how long one may "
                                     "fail to start on its node before it is tried on another.",
                                     "1s", "168h"),
            "hangTimeout": duration("How long a process may report no progress, once it has begun "
                                    "to; 0s: off, silence is no hang.", "1s", "168h", or_off=True),
        }, filled=True),
        "preflight": struct("Whether machines are measured before ranks run on them. Slow ones are "
                            "replaced, two at most.", {
            "enabled": boolean("Measure them: matrix products, memory, the checkpoint folder's disk and "
                               "the links between them."),
            "margin": number("Slow: below the median of the gang by this share, as in 0.3.", above=0,
                             at_most=1),
            "minGflops": number("Fp32 matrix products of a machine's cores, in GFLOP/s; 0: any.",
                                at_least=0),
            "minMemoryGBps": number("Bandwidth of its memory, in GB/s; 0: any.", at_least=0),
            "minDiskGBps": number("Writing to the checkpoint folder, in GB/s; 0: any.", at_least=0),
            "minLinkGBps": number("Its links to the others, in GB/s, the median; 0: any.",
                                  at_least=0),
        }, filled=True),
        "logs": struct("Where the processes' output goes.", {
            "console": choice("Whose output the machines' logs show."),
            "format": choice("Prefix: the rank before each line; Raw; Json."),
            "path": text("Folder with a file for each rank and generation."),
        }, filled=True),
    }


def _life():
    return {
        "suspend": boolean("true stops the job and keeps its checkpoints."),
        "activeDeadlineSeconds": integer("How long the job may run; 0: any time."),
        "ttlSecondsAfterFinished": integer("When a finished job is deleted; absent: never."),
        "successPolicy": choice(
            "Whose exit 0 ends the job: that of All processes, of those of Machine0, or of those of "
            "a Role, successRole; the others are stopped then, and count as done."),
        "successRole": text("The role whose exit 0 ends the job; with successPolicy Role."),
        "roles": listing(
            "Ranks that do different work, in order: the first role has ranks 0 to count - 1, and "
            "so on.", struct("", {
                "name": text("For programs, in LOCKSTEP_ROLE; with framework TensorFlow one of its "
                             "tasks: chief, worker, ps or evaluator.",
                             rule(matches(LABEL), "must be at most 63 lower-case letters, digits "
                                  "and dashes (a DNS-1123 label)")),
                "count": integer("Ranks of the role; the sum of all roles' is the world size."),
                "restart": choice("What the death of one of them costs: a new generation of the "
                                  "whole Gang, or a start of that rank Alone, while the others run "
                                  "on."),
            }, required=["name"]),
            rule("self.all(a, self.exists_one(b, b.name == a.name))",
                 "must have each name once")),
        "cleanPodPolicy": choice("Pods to delete at the end: None, those Running, or All."),
        "managedBy": text("Who reconciles the job; another's name leaves it alone.", rule(
            matches(f"{SUBDOMAIN}/.+"),
            "must be a domain and a name, as in lockstep.dev/operator")),
    }


def _required_rules():
    """What topology.policy Required needs: kubelet gives whole cores to Guaranteed pods alone."""
    def unless(expression, message, path):
        return rule(f"self.topology.policy != 'Required' || {expression}", message, path)

    cores = ("topology.policy Required needs whole CPUs for each process, as in 12: kubelet gives "
             "others no cores of their own")
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
               "is missing; topology.policy Required needs it, as in 110Gi: kubelet gives cores of "
               "their own to Guaranteed pods alone", ".resourcesPerProcess.memory"),
        unless(f"{pod}!has(self.template.spec.resources)",
               "remove it: with the pod's own resources kubelet gives no container cores of its "
               "own, which topology.policy Required needs", ".template.spec.resources"),
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
             "needs spec.resourcesPerProcess.memory or cpu: no pod has huge pages alone",
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
             "must be absent with Kueue's topology annotations: where a machine has no other node, "
             "Kueue takes the whole gang's", ".elastic"),
        rule(f"self.spareMachines == 0 || !({asks})",
             "must be 0 with Kueue's topology annotations: Kueue chooses a lost machine's next node, "
             "not a spare", ".spareMachines"),
    ]


def _role_rules():
    """core/validate/validate_roles.cc."""
    def where(condition, expression, message, path=".roles"):
        return rule(f"!has(self.roles) || self.roles.size() == 0 || !({condition}) || {expression}",
                    message, path)

    tasks = "self.framework == 'TensorFlow'"
    return [
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
        where("self.framework in ['Mpi', 'Horovod']", "false",
              "must be empty with framework: Mpi or Horovod, whose processes are one world of "
              "equals"),
        where("self.launch == 'PerMachine'", "false",
              "must be empty with launch: PerMachine, under which a launcher of yours numbers the "
              "ranks"),
        where("has(self.trainer)", "false",
              "must be empty beside spec.trainer, whose ranks are equals"),
        where("has(self.checkpoint.memory.size)", "self.roles.all(r, r.restart != 'Alone')",
              "must be absent where a role has restart: Alone: a checkpoint in memory is one step "
              "of all ranks", ".checkpoint.memory.size"),
        where(tasks, "self.roles.all(r, r.name in ['chief', 'worker', 'ps', 'evaluator'])",
              "must be chief, worker, ps or evaluator, the tasks that TensorFlow knows"),
        where(tasks, "self.roles.all(r, !(r.name in ['chief', 'ps']) || r.restart != 'Alone')",
              "must be Gang for chief and ps (restart): the training's variables and its steps are "
              "theirs, and end with them"),
        where(tasks, "self.roles.all(r, r.name != 'chief' || r.count == 1)",
              "must be 1 chief: a cluster of TensorFlow has one"),
    ]


def _elastic_rules():
    """core/validate/validate_elastic.cc."""
    def need(expression, message, path):
        return rule(f"!has(self.elastic) || {expression}", message, path)

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
             "must be numbers of machines to whose processes spec.trainer.globalBatchSize can be "
             "dealt out evenly, in micro batches", ".elastic.sizes"),
        need("!(self.framework in ['TensorFlow', 'Mpi', 'Horovod'])",
             f"must be Torch, Accelerate, Jax or None {ranks}", ".framework"),
        need("!has(self.roles) || self.roles.size() == 0", f"must be empty {ranks}", ".roles"),
        need("!has(self.checkpoint.memory.size)", "must be absent with spec.elastic: a checkpoint "
             "in memory is lost with a part", ".checkpoint.memory.size"),
        need("!self.preflight.enabled", "must be false with spec.elastic, which would run without "
             "a slow machine's successor", ".preflight.enabled"),
        need("!has(self.trainer) || (self.trainer.parallel.pipeline <= 1 && "
             "self.trainer.parallel.tensor <= 1)", "must be 1 with spec.elastic: a lost machine "
             "takes a part of the model along", ".trainer.parallel"),
        need("!has(self.trainer) || self.trainer.recovery != 'InPlace'", "must be Restart with "
             "spec.elastic, whose ranks may have other numbers in the next generation",
             ".trainer.recovery"),
    ]


def spec(pod):
    """`pod` gives the parts that are the API server's own: crd.pod_template.Pod."""
    return struct(
        "What the job runs, and how.", {
            "numMachines": integer(
                "Machines: a pod each. Scaling down removes those with the highest indices."),
            "processesPerMachine": integer(
                "Processes on each machine. The world size is numMachines times this.",
                TABLE, TABLE,
                rule("self == oldSelf", "can't change: ranks are numbered by it for the life of the "
                     "job; make a new job")),
            **_what_runs(pod), **_resources(), **_place(), "failurePolicy": _failure_policy(),
            **_time_and_logs(), **_life(),
        }, *shortcuts.command_rules(), *shortcuts.place_rules(), *trainer_rules(),
        *_resource_rules(), *_required_rules(), *_role_rules(), *_elastic_rules(), *_kueue_rules(),
        rule("self.network.hostnames || !has(self.template) || !has(self.template.spec) || "
             "!has(self.template.spec.setHostnameAsFQDN) || !self.template.spec.setHostnameAsFQDN",
             "needs spec.network.hostnames: without it a pod has no domain name",
             ".template.spec.setHostnameAsFQDN"),
        rule("self.topology.bind != 'Map' || (has(self.topology.map) ? self.topology.map.size() : 0)"
             " == self.processesPerMachine", "must hold one entry for each of processesPerMachine, "
             "in order of rank", ".topology.map"))
