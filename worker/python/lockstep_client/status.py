"""What has become of a job: the fields of a TrainingJob's status.

Made by tools/crd from tools/lib/crd. Change it there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Dict, List, Literal, Optional

from lockstep_client.records import Record, of

__all__ = [
    "Agent",
    "Attempt",
    "Condition",
    "Counters",
    "Elastic",
    "LastFailure",
    "LastRestart",
    "Ledger",
    "MachineCounts",
    "MachineStatus",
    "MachineUsage",
    "Metric",
    "OpenLedger",
    "PastGeneration",
    "PodGroup",
    "Preflight",
    "Prestart",
    "Progress",
    "Queue",
    "Restarts",
    "SilentAttempt",
    "SlowMachine",
    "Status",
    "SuspectNode",
    "SyncedCode",
    "Timings",
    "Verdict",
]


@dataclass(repr=False)
class Condition(Record):
    """Ready, Reconciling, Stalled, PodsReady, Running, Admitted, TopologyAligned, PreflightPassed,
    MetricBroken, HangSuspected, Straggler, OnSickNode, RanksNeverMet, Shrunk, Suspended, Complete,
    Failed and NameConflict, as far as they apply."""

    _checked: ClassVar[bool] = False

    type: str = field(metadata=of("type"))
    """Name of the condition."""

    status: Literal["True", "False", "Unknown"] = field(metadata=of("status"))
    """Whether the condition holds."""

    reason: Optional[str] = field(default=None, metadata=of("reason"))
    """The reason in one word."""

    message: Optional[str] = field(default=None, metadata=of("message"))
    """The reason in a sentence."""

    observed_generation: Optional[int] = field(default=None, metadata=of("observedGeneration"))
    """metadata.generation that it describes."""

    last_transition_time: Optional[str] = field(default=None, metadata=of("lastTransitionTime"))
    """When its status last changed."""


@dataclass(repr=False)
class Agent(Record):
    """Image and versions of the job's agents, fixed at the first start."""

    _checked: ClassVar[bool] = False

    image: Optional[str] = field(default=None, metadata=of("image"))
    """Image with the agent."""

    plan_version: Optional[int] = field(default=None, metadata=of("planVersion"))
    """Version of the plan by which pods are made."""

    key_version: Optional[int] = field(default=None, metadata=of("keyVersion"))
    """Version of the master key."""


@dataclass(repr=False)
class Verdict(Record):
    """How the job ended."""

    _checked: ClassVar[bool] = False

    generation: Optional[str] = field(default=None, metadata=of("generation"))
    """Generation that decided the end."""

    exit_code: Optional[int] = field(default=None, metadata=of("exitCode"))
    """Exit code of the job, as lockstep run returns it."""

    cause: Optional[str] = field(default=None, metadata=of("cause"))
    """Cause of a failure."""


@dataclass(repr=False)
class Counters(Record):
    """Counts for the budgets. No operator or coordinator may lose them."""

    _checked: ClassVar[bool] = False

    generations: Optional[int] = field(default=None, metadata=of("generations"))
    """Generations announced."""

    process_failures: Optional[int] = field(default=None, metadata=of("processFailures"))
    """Failures of processes."""

    process_failures_base: Optional[int] = field(default=None, metadata=of("processFailuresBase"))
    """Failures of processes that resetAfter forgave."""

    out_of_memory: Optional[int] = field(default=None, metadata=of("outOfMemory"))
    """Machines that the job itself ended: killed for memory, or an init container failed on several
    nodes."""

    out_of_memory_base: Optional[int] = field(default=None, metadata=of("outOfMemoryBase"))
    """Ends counted in outOfMemory that resetAfter forgave."""

    replacements: Optional[int] = field(default=None, metadata=of("replacements"))
    """Machines replaced."""

    replacements_base: Optional[int] = field(default=None, metadata=of("replacementsBase"))
    """Replacements that resetAfter forgave."""

    leases_expired: Optional[int] = field(default=None, metadata=of("leasesExpired"))
    """Expired leases."""

    stops: Optional[int] = field(default=None, metadata=of("stops"))
    """Stops on request."""

    alone: Optional[int] = field(default=None, metadata=of("alone"))
    """Restarts of a rank alone. processFailures counts them too."""


@dataclass(repr=False)
class MachineCounts(Record):
    """Numbers of machines."""

    _checked: ClassVar[bool] = False

    desired: Optional[int] = field(default=None, metadata=of("desired"))
    """Machines wanted."""

    ready: Optional[int] = field(default=None, metadata=of("ready"))
    """Machines whose pod is ready: its containers have started. After the job's end 0."""

    by_state: Optional[Dict[str, int]] = field(default=None, metadata=of("byState"))
    """Machines by state."""

    spares: Optional[int] = field(default=None, metadata=of("spares"))
    """Spare machines whose pod is ready. They do not count as machines."""


@dataclass(repr=False)
class MachineUsage(Record):
    """What its ranks used when the status was written."""

    _checked: ClassVar[bool] = False

    cpu_millicores: Optional[int] = field(default=None, metadata=of("cpuMillicores"))
    """CPU of their processes, in thousandths of a core."""

    memory_bytes: Optional[int] = field(default=None, metadata=of("memoryBytes"))
    """Resident memory of their processes."""

    received_bytes_per_second: Optional[int] = field(
        default=None, metadata=of("receivedBytesPerSecond")
    )
    """Bytes that its network received."""

    sent_bytes_per_second: Optional[int] = field(default=None, metadata=of("sentBytesPerSecond"))
    """Bytes that its network sent."""


@dataclass(repr=False)
class MachineStatus(Record):
    """At most 100 machines, the worst first."""

    _checked: ClassVar[bool] = False

    index: Optional[int] = field(default=None, metadata=of("index"))
    """Index of the machine."""

    pod: Optional[str] = field(default=None, metadata=of("pod"))
    """Its current pod."""

    node: Optional[str] = field(default=None, metadata=of("node"))
    """The pod's node."""

    state: Optional[str] = field(default=None, metadata=of("state"))
    """Lost, Failed, Absent, Pending, Starting, Draining, Stopping, Stopped, Idle, Running, Finished
    or Succeeded."""

    replacements: Optional[int] = field(default=None, metadata=of("replacements"))
    """Replacements of the machine since the gang was made. It begins anew for a machine that was
    not listed."""

    binding: Optional[str] = field(default=None, metadata=of("binding"))
    """Binding of its processes: None, Partial, or as topology.bind asks."""

    usage: Optional[MachineUsage] = field(default=None, metadata=of("usage"))
    """What its ranks used when the status was written."""


@dataclass(repr=False)
class Attempt(Record):
    """The current attempt of each machine."""

    _checked: ClassVar[bool] = False

    attempt: Optional[int] = field(default=None, metadata=of("attempt"))
    """Epoch in which their pods were made."""

    machines: Optional[str] = field(default=None, metadata=of("machines"))
    """Indices of machines, as in 0-3,7."""


@dataclass(repr=False)
class Restarts(Record):
    """Restarts of the gang and of ranks alone. A failure that ends the job is not a restart."""

    _checked: ClassVar[bool] = False

    total: Optional[int] = field(default=None, metadata=of("total"))
    """All restarts."""

    application: Optional[int] = field(default=None, metadata=of("application"))
    """Restarts after failures of the application."""

    infrastructure: Optional[int] = field(default=None, metadata=of("infrastructure"))
    """Restarts after lost machines."""

    stopped: Optional[int] = field(default=None, metadata=of("stopped"))
    """Restarts after stops on request."""


@dataclass(repr=False)
class LastFailure(Record):
    """The root cause of the last failure."""

    _checked: ClassVar[bool] = False

    time: Optional[str] = field(default=None, metadata=of("time"))
    """When it happened."""

    epoch: Optional[int] = field(default=None, metadata=of("epoch"))
    """Epoch of the gang."""

    generation: Optional[str] = field(default=None, metadata=of("generation"))
    """Generation that the failure ended."""

    machine: Optional[int] = field(default=None, metadata=of("machine"))
    """Machine that caused the failure. -1: none."""

    node: Optional[str] = field(default=None, metadata=of("node"))
    """Node of the machine."""

    rank: Optional[int] = field(default=None, metadata=of("rank"))
    """Rank that caused the failure. -1: none."""

    exit_code: Optional[int] = field(default=None, metadata=of("exitCode"))
    """Exit code of the process."""

    signal: Optional[int] = field(default=None, metadata=of("signal"))
    """Signal that killed the process."""

    cause: Optional[str] = field(default=None, metadata=of("cause"))
    """What happened, in one word: ProcessExit, MachineLost, Hang, ..."""

    message: Optional[str] = field(default=None, metadata=of("message"))
    """What happened, in a sentence."""

    stderr: Optional[str] = field(default=None, metadata=of("stderr"))
    """The process's last lines of stderr."""

    step: Optional[int] = field(default=None, metadata=of("step"))
    """With cause BrokenMetric: the first step whose value broke the rule."""


@dataclass(repr=False)
class PastGeneration(Record):
    """The last ten generations that did not succeed. The newest is last."""

    _checked: ClassVar[bool] = False

    generation: Optional[str] = field(default=None, metadata=of("generation"))
    """The generation that ended."""

    cause: Optional[str] = field(default=None, metadata=of("cause"))
    """The cause of its end."""

    machine: Optional[int] = field(default=None, metadata=of("machine"))
    """Machine that caused its end. Absent: none."""

    detected: Optional[str] = field(default=None, metadata=of("detected"))
    """When its end was detected."""

    respawned: Optional[str] = field(default=None, metadata=of("respawned"))
    """When every rank of the next generation was started."""

    first_step: Optional[str] = field(default=None, metadata=of("firstStep"))
    """When the next generation reported its first step."""

    lost_steps: Optional[int] = field(default=None, metadata=of("lostSteps"))
    """Steps to repeat: from the first reported step of the next generation to the furthest of this
    one."""

    reason: Optional[str] = field(default=None, metadata=of("reason"))
    """Who asked for its end and why, if it was restarted on request. Or the sick nodes that
    machines left."""

    code: Optional[str] = field(default=None, metadata=of("code"))
    """Digest of the code that it ran. Absent: not synced."""


@dataclass(repr=False)
class OpenLedger(Record):
    """The part of the sums since the last generation ended. Its activities may still change."""

    _checked: ClassVar[bool] = False

    since: Optional[str] = field(default=None, metadata=of("since"))
    """When the last generation ended."""

    cause: Optional[str] = field(default=None, metadata=of("cause"))
    """The cause of its end."""

    generation: Optional[str] = field(default=None, metadata=of("generation"))
    """The generation that followed."""

    last_step: Optional[int] = field(default=None, metadata=of("lastStep"))
    """The last step of that generation."""

    nodes_milliseconds: Optional[int] = field(default=None, metadata=of("nodesMilliseconds"))
    """Time in which a machine had no node."""

    machine_milliseconds: Optional[Dict[str, int]] = field(
        default=None, metadata=of("machineMilliseconds")
    )
    """Time of the machines by activity, in milliseconds of one machine: Productive, Unknown,
    WaitingForNodes, WaitingForMachines, Spawn, StartUp, WarmStartUp, CheckpointLoad, Redone, Hang,
    Detect and Stop. The sum is all time."""

    lost_to: Optional[Dict[str, int]] = field(default=None, metadata=of("lostTo"))
    """Time that was lost, by the cause of the restart that lost it. None: the job's first start."""


@dataclass(repr=False)
class Ledger(Record):
    """How the time of the machines was spent."""

    _checked: ClassVar[bool] = False

    since: Optional[str] = field(default=None, metadata=of("since"))
    """When the first pods were made."""

    through: Optional[str] = field(default=None, metadata=of("through"))
    """End of the time that is accounted for."""

    elapsed_milliseconds: Optional[int] = field(default=None, metadata=of("elapsedMilliseconds"))
    """Time from since to through, without suspensions."""

    machine_milliseconds: Optional[Dict[str, int]] = field(
        default=None, metadata=of("machineMilliseconds")
    )
    """Time of the machines by activity, in milliseconds of one machine: Productive, Unknown,
    WaitingForNodes, WaitingForMachines, Spawn, StartUp, WarmStartUp, CheckpointLoad, Redone, Hang,
    Detect and Stop. The sum is all time."""

    lost_to: Optional[Dict[str, int]] = field(default=None, metadata=of("lostTo"))
    """Time that was lost, by the cause of the restart that lost it. None: the job's first start."""

    goodput: Optional[str] = field(default=None, metadata=of("goodput"))
    """The productive share of all time, as in 97.3%. unknown: no step is known."""

    furthest_step: Optional[int] = field(default=None, metadata=of("furthestStep"))
    """The furthest step that any generation reached."""

    settled: Optional[str] = field(default=None, metadata=of("settled"))
    """The last generation whose time is final."""

    open: Optional[OpenLedger] = field(default=None, metadata=of("open"))
    """The part of the sums since the last generation ended. Its activities may still change."""


@dataclass(repr=False)
class Prestart(Record):
    """Parked interpreters for the next generation."""

    _checked: ClassVar[bool] = False

    ready: Optional[int] = field(default=None, metadata=of("ready"))
    """Parked interpreters that are ready."""

    reason: Optional[str] = field(default=None, metadata=of("reason"))
    """Why they are fewer than the job's processes."""

    warm: Optional[int] = field(default=None, metadata=of("warm"))
    """Generations whose ranks all came from parked interpreters."""

    cold: Optional[int] = field(default=None, metadata=of("cold"))
    """All other generations."""

    saved_milliseconds: Optional[int] = field(default=None, metadata=of("savedMilliseconds"))
    """CPU time of imports that warm generations saved, each on the machine that saved most."""

    counted: Optional[str] = field(default=None, metadata=of("counted"))
    """The last generation that is counted."""


@dataclass(repr=False)
class SlowMachine(Record):
    """Attempts of slow machines. The newest is last."""

    _checked: ClassVar[bool] = False

    machine: Optional[int] = field(default=None, metadata=of("machine"))
    """Index of the machine."""

    attempt: Optional[int] = field(default=None, metadata=of("attempt"))
    """Attempt of the machine."""

    because: Optional[str] = field(default=None, metadata=of("because"))
    """The slow figure, and the figure it is compared with."""

    replaced: Optional[bool] = field(default=None, metadata=of("replaced"))
    """true: another attempt replaces it. false: the job continues with it."""


@dataclass(repr=False)
class Preflight(Record):
    """Results of the preflight."""

    _checked: ClassVar[bool] = False

    state: Optional[Literal["Waiting", "Measuring", "Passed", "Slow"]] = field(
        default=None, metadata=of("state")
    )
    """Waiting (for machines), Measuring, Passed, or Slow: the job continues with slow machines."""

    typical: Optional[str] = field(default=None, metadata=of("typical"))
    """Medians of the machines."""

    slow: Optional[List[SlowMachine]] = field(default=None, metadata=of("slow"))
    """Attempts of slow machines. The newest is last."""


@dataclass(repr=False)
class Metric(Record):
    """Those of loss, tokensPerSecond, teraflops, mfu and scalingEfficiency that processes report.
    Rates are summed over the ranks, the others are means."""

    _checked: ClassVar[bool] = False

    name: Optional[str] = field(default=None, metadata=of("name"))
    """Name of the figure."""

    value: Optional[str] = field(default=None, metadata=of("value"))
    """Value of the figure, as text."""


@dataclass(repr=False)
class Progress(Record):
    """Progress that the processes report."""

    _checked: ClassVar[bool] = False

    step: Optional[int] = field(default=None, metadata=of("step"))
    """Steps done."""

    total_steps: Optional[int] = field(default=None, metadata=of("totalSteps"))
    """All steps of the job."""

    percent: Optional[int] = field(default=None, metadata=of("percent"))
    """Percentage of the steps that is done."""

    eta_seconds: Optional[int] = field(default=None, metadata=of("etaSeconds"))
    """Seconds until the last step at the present pace."""

    metrics: Optional[List[Metric]] = field(default=None, metadata=of("metrics"))
    """Those of loss, tokensPerSecond, teraflops, mfu and scalingEfficiency that processes report.
    Rates are summed over the ranks, the others are means."""

    source: Optional[str] = field(default=None, metadata=of("source"))
    """Reports if the processes report the step, Output if it is read from what they print."""

    last_updated: Optional[str] = field(default=None, metadata=of("lastUpdated"))
    """When the progress was reported."""


@dataclass(repr=False)
class Queue(Record):
    """The job in a queue of Kueue."""

    _checked: ClassVar[bool] = False

    workload: Optional[str] = field(default=None, metadata=of("workload"))
    """The Workload that is queued for the job."""

    cluster_queue: Optional[str] = field(default=None, metadata=of("clusterQueue"))
    """The ClusterQueue that admitted the job."""

    flavors: Optional[Dict[str, str]] = field(default=None, metadata=of("flavors"))
    """The ResourceFlavor of each resource."""


@dataclass(repr=False)
class SilentAttempt(Record):
    """Attempts that were lost for silence and whose charge is open. An attempt is charged unless
    its node is lost too."""

    _checked: ClassVar[bool] = False

    attempt: Optional[int] = field(default=None, metadata=of("attempt"))
    """Epoch in which their pods were made."""

    machines: Optional[str] = field(default=None, metadata=of("machines"))
    """Indices of machines, as in 0-3,7."""


@dataclass(repr=False)
class Elastic(Record):
    """The members of an elastic gang."""

    _checked: ClassVar[bool] = False

    members: Optional[str] = field(default=None, metadata=of("members"))
    """Machines of the next generation, if not of this one, as in 0-5,7."""

    witnesses: Optional[str] = field(default=None, metadata=of("witnesses"))
    """Machines whose agents can tell a new machine 0 that all earlier ranks are dead."""

    asked: Optional[str] = field(default=None, metadata=of("asked"))
    """Machines that were asked to leave and have found no other node."""

    silent: Optional[List[SilentAttempt]] = field(default=None, metadata=of("silent"))
    """Attempts that were lost for silence and whose charge is open. An attempt is charged unless
    its node is lost too."""

    without_quota: Optional[str] = field(default=None, metadata=of("withoutQuota"))
    """Machines that returned their quota to the queue. They have no pods until the queue grants it
    again."""

    since: Optional[str] = field(default=None, metadata=of("since"))
    """When the members were decided. A return of quota sets it anew."""

    reason: Optional[str] = field(default=None, metadata=of("reason"))
    """Why they were decided."""


@dataclass(repr=False)
class LastRestart(Record):
    """The last restart that was requested."""

    _checked: ClassVar[bool] = False

    id: Optional[str] = field(default=None, metadata=of("id"))
    """The id of the request."""

    reason: Optional[str] = field(default=None, metadata=of("reason"))
    """Why."""

    requested_by: Optional[str] = field(default=None, metadata=of("requestedBy"))
    """Who asked, as the client said."""

    at_commit: Optional[bool] = field(default=None, metadata=of("atCommit"))
    """It waits for a commit."""

    attempt: Optional[int] = field(default=None, metadata=of("attempt"))
    """Attempt of machine 0 that carries it out. 0: no gang was there."""

    asked: Optional[str] = field(default=None, metadata=of("asked"))
    """When it was recorded."""

    done: Optional[str] = field(default=None, metadata=of("done"))
    """When a younger generation had begun, or was to begin next. Absent: it is not done."""


@dataclass(repr=False)
class SyncedCode(Record):
    """The code in the ranks' folder."""

    _checked: ClassVar[bool] = False

    digest: Optional[str] = field(default=None, metadata=of("digest"))
    """Digest of the manifest of its files."""

    files: Optional[int] = field(default=None, metadata=of("files"))
    """Number of its files."""

    by: Optional[str] = field(default=None, metadata=of("by"))
    """Who synced it."""

    since: Optional[str] = field(default=None, metadata=of("since"))
    """When it was put there."""

    generation: Optional[str] = field(default=None, metadata=of("generation"))
    """The first generation that runs it. Absent: the next one."""


@dataclass(repr=False)
class SuspectNode(Record):
    """Nodes that the gang had trouble with. The worst is first."""

    _checked: ClassVar[bool] = False

    node: Optional[str] = field(default=None, metadata=of("node"))
    """Name of the node."""

    evidence: Optional[str] = field(default=None, metadata=of("evidence"))
    """Lost: a machine was lost there. Failed: ranks failed there, at least twice. Straggler: the
    others waited for it. Slow: preflight found it slow."""

    count: Optional[int] = field(default=None, metadata=of("count"))
    """How often."""

    last: Optional[str] = field(default=None, metadata=of("last"))
    """When it was seen last."""

    message: Optional[str] = field(default=None, metadata=of("message"))
    """What was seen last."""


@dataclass(repr=False)
class PodGroup(Record):
    """The PodGroup by which a scheduler places the pods together."""

    _checked: ClassVar[bool] = False

    name: Optional[str] = field(default=None, metadata=of("name"))
    """Name of the PodGroup."""

    gang: Optional[Literal["None", "Kubernetes", "Coscheduling", "Volcano"]] = field(
        default=None, metadata=of("gang")
    )
    """Kind of the PodGroup, as in spec.scheduling.gang."""


@dataclass(repr=False)
class Timings(Record):
    """When the job reached each stage."""

    _checked: ClassVar[bool] = False

    created: Optional[str] = field(default=None, metadata=of("created"))
    """When pods were created."""

    scheduled: Optional[str] = field(default=None, metadata=of("scheduled"))
    """When all pods were scheduled."""

    started: Optional[str] = field(default=None, metadata=of("started"))
    """When every rank ran."""

    first_step: Optional[str] = field(default=None, metadata=of("firstStep"))
    """When the first step was reported."""

    finished: Optional[str] = field(default=None, metadata=of("finished"))
    """When the job ended."""


@dataclass(repr=False)
class Status(Record):
    """The observed state of the job, written by the operator."""

    _checked: ClassVar[bool] = False

    state: Optional[Literal[
        "Pending", "Queued", "Starting", "Running", "Restarting", "Stopping", "Suspended",
        "Succeeded", "Failed"
    ]] = field(
        default=None, metadata=of("state")
    )
    """State of the job."""

    reason: Optional[str] = field(default=None, metadata=of("reason"))
    """Why the job is in this state, and what to do."""

    ready: Optional[str] = field(default=None, metadata=of("ready"))
    """Ready machines of those wanted, as in 3/4."""

    processes: Optional[int] = field(default=None, metadata=of("processes"))
    """World size: numMachines times processesPerMachine."""

    progress_text: Optional[str] = field(default=None, metadata=of("progressText"))
    """Steps done, as in 1200/5000 24% eta 1h10m."""

    observed_generation: Optional[int] = field(default=None, metadata=of("observedGeneration"))
    """metadata.generation that the status describes. -1: no operator has seen the job."""

    conditions: Optional[List[Condition]] = field(default=None, metadata=of("conditions"))
    """Ready, Reconciling, Stalled, PodsReady, Running, Admitted, TopologyAligned, PreflightPassed,
    MetricBroken, HangSuspected, Straggler, OnSickNode, RanksNeverMet, Shrunk, Suspended, Complete,
    Failed and NameConflict, as far as they apply."""

    epoch: Optional[int] = field(default=None, metadata=of("epoch"))
    """Raised before pods are made. The attempt of a pod is the epoch in which it was made."""

    created_epoch: Optional[int] = field(default=None, metadata=of("createdEpoch"))
    """All pods of epochs up to this one were created."""

    agent: Optional[Agent] = field(default=None, metadata=of("agent"))
    """Image and versions of the job's agents, fixed at the first start."""

    verdict: Optional[Verdict] = field(default=None, metadata=of("verdict"))
    """How the job ended."""

    counters: Optional[Counters] = field(default=None, metadata=of("counters"))
    """Counts for the budgets. No operator or coordinator may lose them."""

    machine_lost_after: Optional[str] = field(default=None, metadata=of("machineLostAfter"))
    """The highest machineLostAfter that the job ever had."""

    gang_generation: Optional[str] = field(default=None, metadata=of("gangGeneration"))
    """The current generation: attempt of machine 0, and number."""

    generation: Optional[str] = field(default=None, metadata=of("generation"))
    """Deprecated: the former name of gangGeneration. Read, never written."""

    replicas: Optional[int] = field(default=None, metadata=of("replicas"))
    """Machines of the gang, for the scale subresource."""

    selector: Optional[str] = field(default=None, metadata=of("selector"))
    """Label selector of the job's pods."""

    machines: Optional[MachineCounts] = field(default=None, metadata=of("machines"))
    """Numbers of machines."""

    machine_statuses: Optional[List[MachineStatus]] = field(
        default=None, metadata=of("machineStatuses")
    )
    """At most 100 machines, the worst first."""

    attempts: Optional[List[Attempt]] = field(default=None, metadata=of("attempts"))
    """The current attempt of each machine."""

    restarts: Optional[Restarts] = field(default=None, metadata=of("restarts"))
    """Restarts of the gang and of ranks alone. A failure that ends the job is not a restart."""

    last_failure: Optional[LastFailure] = field(default=None, metadata=of("lastFailure"))
    """The root cause of the last failure."""

    history: Optional[List[PastGeneration]] = field(default=None, metadata=of("history"))
    """The last ten generations that did not succeed. The newest is last."""

    ledger: Optional[Ledger] = field(default=None, metadata=of("ledger"))
    """How the time of the machines was spent."""

    prestart: Optional[Prestart] = field(default=None, metadata=of("prestart"))
    """Parked interpreters for the next generation."""

    preflight: Optional[Preflight] = field(default=None, metadata=of("preflight"))
    """Results of the preflight."""

    progress: Optional[Progress] = field(default=None, metadata=of("progress"))
    """Progress that the processes report."""

    queue: Optional[Queue] = field(default=None, metadata=of("queue"))
    """The job in a queue of Kueue."""

    elastic: Optional[Elastic] = field(default=None, metadata=of("elastic"))
    """The members of an elastic gang."""

    restart: Optional[LastRestart] = field(default=None, metadata=of("restart"))
    """The last restart that was requested."""

    code: Optional[SyncedCode] = field(default=None, metadata=of("code"))
    """The code in the ranks' folder."""

    suspect_nodes: Optional[List[SuspectNode]] = field(default=None, metadata=of("suspectNodes"))
    """Nodes that the gang had trouble with. The worst is first."""

    pod_group: Optional[PodGroup] = field(default=None, metadata=of("podGroup"))
    """The PodGroup by which a scheduler places the pods together."""

    timings: Optional[Timings] = field(default=None, metadata=of("timings"))
    """When the job reached each stage."""
