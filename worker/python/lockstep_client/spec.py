"""What a job asks for: the fields of a TrainingJob's spec.

Made by tools/crd from tools/lib/crd. Change it there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Literal, Optional, Union

from lockstep_client.records import Record, of

__all__ = [
    "Checkpoint",
    "CpuMap",
    "Elastic",
    "FailurePolicy",
    "FailureRule",
    "Health",
    "ImagePullSecret",
    "JobFields",
    "Logs",
    "MemoryCheckpoints",
    "ModelShape",
    "Mpi",
    "Network",
    "Placement",
    "Preflight",
    "ProgressSource",
    "ResourcesPerProcess",
    "RestartRequest",
    "Role",
    "Scheduling",
    "Sync",
    "Topology",
    "Trainer",
    "TrainerParallel",
]


@dataclass(repr=False)
class ImagePullSecret(Record):
    """Secrets to pull images."""

    name: str = field(metadata=of("name"))
    """Name of the Secret."""


@dataclass(repr=False)
class Mpi(Record):
    """How the ranks of an MPI program start, with framework Mpi."""

    start: Optional[Literal["Launcher", "Pmi", "Pmix"]] = field(default=None, metadata=of("start"))
    """Launcher: machine 0 runs the command, an mpirun, which reaches the others through the agents.
    Pmi: the agents start the ranks and answer PMI-1 (MPICH, Intel MPI). Pmix: the agents start the
    ranks, and a helper answers PMIx (Open MPI 4 and 5). Default: Launcher."""


@dataclass(repr=False)
class ModelShape(Record):
    """All four sizes, instead of those of model. width must be a multiple of heads."""

    layers: int = field(metadata=of("layers", minimum=1, maximum=1024))
    """layers of the model."""

    heads: int = field(metadata=of("heads", minimum=1, maximum=1024))
    """heads of the model."""

    width: int = field(metadata=of("width", minimum=1, maximum=65536))
    """width of the model."""

    vocabulary: int = field(metadata=of("vocabulary", minimum=1, maximum=16777216))
    """vocabulary of the model."""


@dataclass(repr=False)
class TrainerParallel(Record):
    """How the processes share one model. The rest is data parallel."""

    pipeline: Optional[int] = field(default=None, metadata=of("pipeline", minimum=1, maximum=1024))
    """Adjacent processes with an equal part of the layers each. It divides the processes and the
    layers: 4 of nano, 6 of micro, 12 of gpt2. Default: 1."""

    tensor: Optional[int] = field(default=None, metadata=of("tensor", minimum=1, maximum=1024))
    """Adjacent processes with an equal part of each layer's shards. It divides tensorShards;
    pipeline x tensor divides the processes. Default: 1."""

    tensor_shards: Optional[int] = field(
        default=None, metadata=of("tensorShards", minimum=1, maximum=1024)
    )
    """Parts in which each layer's heads and MLP are computed. It decides the bits, whatever the
    number of processes. A power of two that divides the heads: up to 4 for nano and gpt2, 2 for
    micro. Default: 1."""


@dataclass(repr=False)
class Trainer(Record):
    """The built-in trainer, which replaces `command`."""

    mode: Optional[Literal["Train", "Generate"]] = field(default=None, metadata=of("mode"))
    """Train: train a model. Generate: continue each prompt with the model of checkpoint.resume.
    Default: Train."""

    model: Optional[Literal["nano", "micro", "gpt2"]] = field(default=None, metadata=of("model"))
    """The model: nano, micro or gpt2. Default: nano."""

    model_shape: Optional[ModelShape] = field(default=None, metadata=of("modelShape"))
    """All four sizes, instead of those of model. width must be a multiple of heads."""

    data: Optional[List[str]] = field(default=None, metadata=of("data"))
    """Globs of text or llm.c .bin files. Required for mode Train."""

    prompts: Optional[List[str]] = field(default=None, metadata=of("prompts"))
    """Globs of text files with one prompt a line. Required for mode Generate."""

    steps: Optional[int] = field(
        default=None, metadata=of("steps", minimum=1, maximum=1000000000000)
    )
    """Optimizer steps. Default: 1000."""

    global_batch_size: Optional[int] = field(
        default=None, metadata=of("globalBatchSize", minimum=1, maximum=2147483647)
    )
    """Sequences a step, of the whole job. It must divide evenly among the processes. Default:
    16."""

    micro_batch_size: Optional[int] = field(
        default=None, metadata=of("microBatchSize", minimum=1, maximum=2147483647)
    )
    """Sequences of one process at a time. Gradients accumulate over the micro-batches of a step.
    Absent: chosen, for at least eight micro-batches a step. Equal bits at another world size need
    the same value."""

    sequence_length: Optional[int] = field(
        default=None, metadata=of("sequenceLength", minimum=1, maximum=1048576)
    )
    """Tokens of a sequence. Default: 128."""

    learning_rate: Optional[float] = field(default=None, metadata=of("learningRate", above=0))
    """The highest learning rate. Default: 0.0003."""

    warmup_steps: Optional[int] = field(
        default=None, metadata=of("warmupSteps", minimum=0, maximum=1000000000000)
    )
    """Steps until the highest learning rate. Default: 0."""

    decay_steps: Optional[int] = field(
        default=None, metadata=of("decaySteps", minimum=0, maximum=1000000000000)
    )
    """Steps until the lowest learning rate. 0: all steps. Default: 0."""

    weight_decay: Optional[float] = field(default=None, metadata=of("weightDecay", minimum=0))
    """AdamW's weight decay. Default: 0.1."""

    clip: Optional[float] = field(default=None, metadata=of("clip", minimum=0))
    """The limit of the gradient's norm. 0: no limit. Default: 1."""

    seed: Optional[int] = field(default=None, metadata=of("seed"))
    """Seed of the weights and the data order. Default: 1337."""

    precision: Optional[Literal["Fp32", "Bf16"]] = field(default=None, metadata=of("precision"))
    """Fp32 or Bf16. Default: Fp32."""

    device: Optional[Literal["Auto", "Cpu", "Cuda"]] = field(default=None, metadata=of("device"))
    """Cuda (a GPU for each process), Cpu, or Auto: Cuda if the job asks for GPUs. Default: Auto."""

    backend: Optional[Literal["Auto", "Gloo", "Nccl"]] = field(default=None, metadata=of("backend"))
    """How ranks communicate: Nccl for GPUs, Gloo for CPUs, or Auto. Default: Auto."""

    sync: Optional[Literal["AllReduce", "ParameterServer"]] = field(
        default=None, metadata=of("sync")
    )
    """How ranks combine gradients: AllReduce or ParameterServer. Default: AllReduce."""

    servers: Optional[List[int]] = field(
        default=None, metadata=of("servers", minimum=0, maximum=65535)
    )
    """The ranks that serve with sync ParameterServer. Default: [0]."""

    reduce: Optional[Literal["Tree", "Ring", "Nccl"]] = field(default=None, metadata=of("reduce"))
    """How gradients are added up. Tree: in a fixed order, with equal bits for every number of
    ranks. Ring: by Gloo. Nccl: by NCCL. Default: Tree."""

    parallel: Optional[TrainerParallel] = field(default=None, metadata=of("parallel"))
    """How the processes share one model. The rest is data parallel."""

    bucket_mb: Optional[int] = field(default=None, metadata=of("bucketMb", minimum=1, maximum=1024))
    """Megabytes of gradients that are sent at once. Default: 25."""

    overlap: Optional[bool] = field(default=None, metadata=of("overlap"))
    """Send gradients while others are computed. Default: true."""

    checkpoint_every: Optional[int] = field(
        default=None, metadata=of("checkpointEvery", minimum=0, maximum=1000000000000)
    )
    """Steps between checkpoints. 0: only at the end. Default: 100."""

    memory_every: Optional[int] = field(
        default=None, metadata=of("memoryEvery", minimum=0, maximum=1000000000000)
    )
    """With checkpoint.memory: steps between checkpoints in memory. 0: none. Absent: chosen, to cost
    at most 2 % of the time."""

    validation_data: Optional[List[str]] = field(default=None, metadata=of("validationData"))
    """Globs of held-out text or llm.c .bin files. The trainer reports their loss and perplexity."""

    validate_every: Optional[int] = field(
        default=None, metadata=of("validateEvery", minimum=0, maximum=1000000000000)
    )
    """Steps between validations. 0: only after the last step. Default: 0."""

    validation_samples: Optional[int] = field(
        default=None, metadata=of("validationSamples", minimum=1, maximum=1000000)
    )
    """The most sequences of one validation. Default: 256."""

    measure_scaling: Optional[bool] = field(default=None, metadata=of("measureScaling"))
    """Rank 0 first makes five steps alone, and the trainer compares the speed of all ranks with it.
    Default: false."""

    recovery: Optional[Literal["Restart", "InPlace"]] = field(default=None, metadata=of("recovery"))
    """What the other ranks do if one dies. Restart: start anew from the newest checkpoint. InPlace:
    keep their processes and give the new rank their state. Default: Restart."""


@dataclass(repr=False)
class ResourcesPerProcess(Record):
    """Resources of each process. The worker container requests processesPerMachine times this."""

    gpu: Optional[int] = field(default=None, metadata=of("gpu", minimum=0, maximum=64))
    """GPUs. With trainer 0 or 1."""

    gpu_resource: Optional[str] = field(default=None, metadata=of("gpuResource"))
    """The resource that gpu counts. Default: nvidia.com/gpu."""

    cpu: Optional[Union[int, str]] = field(default=None, metadata=of("cpu"))
    """Cores, as in 12 or 500m."""

    memory: Optional[Union[int, str]] = field(default=None, metadata=of("memory"))
    """Memory, as in 110Gi."""


@dataclass(repr=False)
class CpuMap(Record):
    """With bind Map, one entry for each process of a machine, in order of rank."""

    cpus: str = field(metadata=of("cpus"))
    """CPUs, as in 0-7,16-23."""

    memory: Optional[str] = field(default=None, metadata=of("memory"))
    """NUMA nodes to take memory from. Absent: the nodes of the CPUs."""


@dataclass(repr=False)
class Topology(Record):
    """How processes are bound within a machine."""

    bind: Optional[Literal[
        "None", "Node", "Socket", "CoreComplex", "Exclusive", "Interleave", "Map"
    ]] = field(
        default=None, metadata=of("bind")
    )
    """The cores of each process. Node: the cores of its GPUs' NUMA nodes, or its share of the
    cores. Socket: all cores of those nodes' sockets. CoreComplex: the cores under one last-level
    cache. Exclusive: cores that no other process has. Interleave: all cores, with memory spread
    over all nodes. Map: the CPUs in map. None: any core. Default: Node."""

    map: Optional[List[CpuMap]] = field(default=None, metadata=of("map"))
    """With bind Map, one entry for each process of a machine, in order of rank."""

    memory_policy: Optional[Literal["None", "Preferred", "Strict", "Interleave"]] = field(
        default=None, metadata=of("memoryPolicy")
    )
    """The NUMA nodes of each process's memory. Preferred: the nodes it is bound to, while they have
    room. Strict: only these. Interleave: these in turn, page by page. None: the node where the
    process first touches the page. Default: Preferred."""

    policy: Optional[Literal["None", "Preferred", "Required"]] = field(
        default=None, metadata=of("policy")
    )
    """Required: each pod is Guaranteed, so that kubelet's static policy gives it its own cores, and
    a misaligned machine is replaced on another node. Preferred and None: condition TopologyAligned
    only reports it. Default: Preferred."""

    gpu_visibility: Optional[Literal["Shared", "Isolated"]] = field(
        default=None, metadata=of("gpuVisibility")
    )
    """Shared: a process sees all GPUs of its machine. Isolated: it sees only its own, counted from
    0, and LOCAL_RANK is 0. Default: Shared."""


@dataclass(repr=False)
class Placement(Record):
    """The nodes of the machines."""

    one_per_node: Optional[Literal["Auto", "Required", "Preferred", "None"]] = field(
        default=None, metadata=of("onePerNode")
    )
    """At most one machine of the job on a node: Required, Preferred or None (any number). Auto:
    Required with GPUs, because GPUs do not reach across two pods of a node; else Preferred.
    Default: Auto."""

    topology_key: Optional[str] = field(default=None, metadata=of("topologyKey"))
    """Keeps the machines under one value of this node label."""

    topology_levels: Optional[List[str]] = field(default=None, metadata=of("topologyLevels"))
    """Further node labels, from near to far (rack, then block). If one value of topologyKey cannot
    hold all machines, they stay under one value of the next label."""

    topology_mode: Optional[Literal["Preferred", "Required"]] = field(
        default=None, metadata=of("topologyMode")
    )
    """Preferred: nearer is better. Required: all machines share a value of topologyKey, or of the
    last of topologyLevels; the nearer labels stay preferred. Default: Preferred."""


@dataclass(repr=False)
class Scheduling(Record):
    """How the scheduler gives the machines their nodes."""

    gang: Optional[Literal["None", "Kubernetes", "Coscheduling", "Volcano"]] = field(
        default=None, metadata=of("gang")
    )
    """All machines get a node together, or none does. Kubernetes: by its own PodGroup, if the
    cluster has them (1.36, alpha). Coscheduling: by a plugin of scheduler-plugins, which the pods'
    scheduler must have. Volcano: by its scheduler, unless schedulerName names another. Default:
    None."""


@dataclass(repr=False)
class Network(Record):
    """How machines find each other."""

    hostnames: Optional[bool] = field(default=None, metadata=of("hostnames"))
    """Gives each machine a DNS name, as in gpt-3.gpt. false: machines have only addresses, and no
    machine waits for DNS records. Default: true."""


@dataclass(repr=False)
class Elastic(Record):
    """Lets the gang run with fewer machines while others find no node."""

    min_machines: Optional[int] = field(
        default=None, metadata=of("minMachines", minimum=1, maximum=4096)
    )
    """The fewest machines with which the gang runs. Default: 1."""

    sizes: Optional[List[int]] = field(default=None, metadata=of("sizes", minimum=1, maximum=4096))
    """Allowed numbers of machines, ascending. Absent: any. numMachines is always allowed."""

    shrink_after: Optional[str] = field(default=None, metadata=of("shrinkAfter"))
    """How long a machine may find no node before the gang continues without it. Default: 2m."""

    grow_after: Optional[str] = field(default=None, metadata=of("growAfter"))
    """How long the gang keeps a size before it grows at a checkpoint. Default: 15m."""


@dataclass(repr=False)
class FailureRule(Record):
    """The first rule that matches a failure decides. If none matches, the defaults in
    docs/reference/trainingjob.md apply."""

    exit_codes: Optional[List[int]] = field(
        default=None, metadata=of("exitCodes", minimum=1, maximum=255)
    )
    """Exit codes. The process must have ended with one of them."""

    signals: Optional[List[Literal[
        "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE",
        "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGXCPU",
        "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGSYS"
    ]]] = field(
        default=None, metadata=of("signals")
    )
    """Signals. The process must have died of one of them."""

    stderr: Optional[str] = field(default=None, metadata=of("stderr"))
    """An RE2 expression that must match in the process's last lines of stderr, as many as fit into
    1 KiB."""

    metric: Optional[str] = field(default=None, metadata=of("metric"))
    """A figure that ranks report or print, such as loss. The rule is about its values and not about
    the end of a process."""

    is_: Optional[Literal["NotFinite"]] = field(default=None, metadata=of("is"))
    """Bad values of the metric. NotFinite: NaN and infinity."""

    above: Optional[float] = field(default=None, metadata=of("above"))
    """Bad values of the metric: those above this one, and those that are not finite."""

    rises_by: Optional[str] = field(default=None, metadata=of("risesBy"))
    """Bad values of the metric: those above so many times its lowest value of the last `within`
    steps, as in 3x, and those that are not finite."""

    within: Optional[int] = field(default=None, metadata=of("within", minimum=1, maximum=1000000))
    """Steps in which `risesBy` looks for the lowest value. Default: 100."""

    for_: Optional[int] = field(default=None, metadata=of("for", minimum=1, maximum=1000000))
    """The rule matches if each value is bad over so many steps. Default: 1."""

    skip_steps: Optional[int] = field(
        default=None, metadata=of("skipSteps", minimum=0, maximum=1000000)
    )
    """With RestartFromEarlier: the ranks leave out the data of the bad steps, and of so many steps
    in all, up to the last bad one (LOCKSTEP_SKIP_STEPS). 0: they leave out none. Default: 0."""

    at_most: Optional[int] = field(default=None, metadata=of("atMost", minimum=1, maximum=1000))
    """With RestartFromEarlier: restarts of this kind before the job fails. Default: 3."""

    action: Optional[Literal[
        "Restart", "Fail", "ReplaceMachine", "RestartFromEarlier", "Report"
    ]] = field(
        default=None, metadata=of("action")
    )
    """What follows a failure that matches. Default: Restart, and Report in a rule with `metric`."""


@dataclass(repr=False)
class FailurePolicy(Record):
    """How Lockstep handles failures."""

    max_restarts: Optional[int] = field(
        default=None, metadata=of("maxRestarts", minimum=0, maximum=2147483647)
    )
    """Restarts after failures of the application: of the whole gang, or of a rank alone. 0: the
    first failure ends the job. Default: 3."""

    max_machine_replacements: Optional[int] = field(
        default=None, metadata=of("maxMachineReplacements", minimum=0, maximum=2147483647)
    )
    """Replacements of lost machines before the job fails. 0: the first loss ends the job. Default:
    10."""

    reset_after: Optional[str] = field(default=None, metadata=of("resetAfter"))
    """Both budgets are full again after this time without a failure. Default: 1h."""

    restart_grace_period: Optional[str] = field(default=None, metadata=of("restartGracePeriod"))
    """Time from SIGTERM to SIGKILL for the ranks that remain after a failure. Default: 0s."""

    machine_lost_after: Optional[str] = field(default=None, metadata=of("machineLostAfter"))
    """How long a machine may be silent before it counts as lost. Default: 15s."""

    stragglers: Optional[Literal["Report", "Replace"]] = field(
        default=None, metadata=of("stragglers")
    )
    """What follows if a machine delays the others: Report it, or Replace it at the next checkpoint.
    Default: Report."""

    node_health: Optional[Literal["Ignore", "AtCheckpoint", "Now"]] = field(
        default=None, metadata=of("nodeHealth")
    )
    """What follows if a machine's node is sick: Ignore that, or move the machine to another node
    AtCheckpoint, after the next one, or Now. Default: AtCheckpoint."""

    rules: Optional[List[FailureRule]] = field(default=None, metadata=of("rules"))
    """The first rule that matches a failure decides. If none matches, the defaults in
    docs/reference/trainingjob.md apply."""


@dataclass(repr=False)
class MemoryCheckpoints(Record):
    """Checkpoints in the machines' memory. Off without a size."""

    size: Optional[Union[int, str]] = field(default=None, metadata=of("size"))
    """Memory of each machine for checkpoints, including copies of another machine's, as in 16Gi."""

    replicas: Optional[int] = field(default=None, metadata=of("replicas", minimum=0, maximum=1))
    """Copies on other machines. Default: 1."""


@dataclass(repr=False)
class Checkpoint(Record):
    """Checkpoints of the job."""

    claim: Optional[str] = field(default=None, metadata=of("claim"))
    """A PersistentVolumeClaim, mounted at path, which it needs."""

    path: Optional[str] = field(default=None, metadata=of("path"))
    """The folder of the checkpoints; with lockstep run, a folder of this computer. Absent: commits
    to a folder are refused."""

    resume: Optional[str] = field(default=None, metadata=of("resume"))
    """The checkpoint to resume from. Auto: this job's newest complete one. Never: none. Else the
    path of a checkpoint. Default: Auto."""

    memory: Optional[MemoryCheckpoints] = field(default=None, metadata=of("memory"))
    """Checkpoints in the machines' memory. Off without a size."""

    persist_every: Optional[str] = field(default=None, metadata=of("persistEvery"))
    """How often the newest checkpoint in memory goes to path or url. 0s: only at the job's end.
    Default: 10m."""

    url: Optional[str] = field(default=None, metadata=of("url"))
    """s3://BUCKET/PREFIX: an object store in place of path. Agents upload checkpoints from memory,
    which needs memory.size."""

    secret: Optional[str] = field(default=None, metadata=of("secret"))
    """A Secret with the credentials of url, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
    Processes don't get them. Absent: the pod's role."""

    keep: Optional[int] = field(default=None, metadata=of("keep", minimum=1, maximum=1000))
    """How many of the newest checkpoints stay in url. Older ones are deleted after a commit.
    Default: 3."""

    keep_every: Optional[str] = field(default=None, metadata=of("keepEvery"))
    """Also keeps one older checkpoint in url for each such time. 0s: none. Default: 0s."""

    upload_bandwidth: Optional[Union[int, str]] = field(
        default=None, metadata=of("uploadBandwidth")
    )
    """Most bytes a second that a machine uploads to url, as in 200Mi. Absent: no limit."""


@dataclass(repr=False)
class Health(Record):
    """Time limits for a job without progress."""

    start_timeout: Optional[str] = field(default=None, metadata=of("startTimeout"))
    """If not all machines find a node in this time, the gang releases its nodes and tries again. If
    a machine does not start on its node in this time, it is tried on another node. Default: 10m."""

    hang_timeout: Optional[str] = field(default=None, metadata=of("hangTimeout"))
    """How long a process may report no progress after its first report. 0s: off. Default: 0s."""

    hang_action: Optional[Literal["Report", "Restart"]] = field(
        default=None, metadata=of("hangAction")
    )
    """What follows if a gang makes no progress and none of its ranks works: Report, or after 10
    minutes or more also Restart. Default: Report."""


@dataclass(repr=False)
class Preflight(Record):
    """Measures machines before ranks run on them. At most two slow machines are replaced."""

    enabled: Optional[bool] = field(default=None, metadata=of("enabled"))
    """Measure matrix products, memory, the disk of the checkpoint folder, links between machines,
    and GPUs. Default: false."""

    margin: Optional[float] = field(default=None, metadata=of("margin", above=0, maximum=1))
    """A machine is slow if it is below the gang's median by this share, as in 0.3. Default: 0.3."""

    min_gflops: Optional[float] = field(default=None, metadata=of("minGflops", minimum=0))
    """Least fp32 matrix products of a machine's cores, in GFLOP/s. 0: no limit. Default: 0."""

    min_memory_gbps: Optional[float] = field(default=None, metadata=of("minMemoryGBps", minimum=0))
    """Least memory bandwidth of a machine, in GB/s. 0: no limit. Default: 0."""

    min_disk_gbps: Optional[float] = field(default=None, metadata=of("minDiskGBps", minimum=0))
    """Least write rate to the checkpoint folder, in GB/s. 0: no limit. Default: 0."""

    min_link_gbps: Optional[float] = field(default=None, metadata=of("minLinkGBps", minimum=0))
    """Least median rate of a machine's links to others, in GB/s. 0: no limit. Default: 0."""


@dataclass(repr=False)
class Logs(Record):
    """Output of the processes."""

    console: Optional[Literal["All", "RankZero", "FailedOnly"]] = field(
        default=None, metadata=of("console")
    )
    """The ranks whose output the machines' logs show. FailedOnly: those that failed. Default:
    All."""

    format: Optional[Literal["Prefix", "Raw", "Json"]] = field(default=None, metadata=of("format"))
    """Prefix (the rank before each line), Raw or Json. Default: Prefix."""

    path: Optional[str] = field(default=None, metadata=of("path"))
    """Folder for files GENERATION/rank-RANK.stdout.log and .stderr.log, of at most 64 MiB each and
    2 GiB a machine."""


@dataclass(repr=False)
class ProgressSource(Record):
    """Where the step, the total and the loss of a rank come from."""

    from_: Optional[Literal["Auto", "Reports", "Output", "Never"]] = field(
        default=None, metadata=of("from")
    )
    """Auto: what the program reports; until it reports, what it prints. Reports: lockstep.report()
    alone. Output: what it prints alone, which hangTimeout then counts. Never: nowhere. Default:
    Auto."""

    patterns: Optional[List[str]] = field(default=None, metadata=of("patterns"))
    """RE2 expressions for lines in a style of your own, with groups named step, total, epoch,
    epochs or loss."""


@dataclass(repr=False)
class RestartRequest(Record):
    """Asks for a new generation, uncharged. kubectl lockstep restart writes it."""

    id: str = field(metadata=of("id"))
    """Names the request. A new id is a new request."""

    reason: Optional[str] = field(default=None, metadata=of("reason"))
    """The reason, for status.history and events."""

    requested_by: Optional[str] = field(default=None, metadata=of("requestedBy"))
    """Who asks, as the client says. Nothing proves it."""

    at_commit: Optional[bool] = field(default=None, metadata=of("atCommit"))
    """true waits until the program commits a checkpoint. Default: false."""


@dataclass(repr=False)
class Sync(Record):
    """Present, as {}: users may run code of their own computers on all machines, by kubectl
    lockstep sync, if they may create pods/exec."""


@dataclass(repr=False)
class Role(Record):
    """Names for ranks that do different work, in order of rank. The first role has ranks 0 to count
    - 1."""

    name: str = field(metadata=of("name"))
    """Value of LOCKSTEP_ROLE. With framework TensorFlow a task: chief, worker, ps or evaluator."""

    count: Optional[int] = field(default=None, metadata=of("count", minimum=1, maximum=262144))
    """Ranks of the role. The sum over all roles is the world size. Default: 1."""

    restart: Optional[Literal["Gang", "Alone"]] = field(default=None, metadata=of("restart"))
    """What follows the death of such a rank. Gang: a new generation. Alone: a restart of that rank,
    while the others run on. Default: Gang."""


@dataclass(repr=False)
class JobFields(Record):
    """The desired state of the job."""

    name: str
    """Name of the job."""

    namespace: Optional[str] = None
    """Namespace on a cluster. Absent: that of the kubeconfig."""

    labels: Optional[Dict[str, str]] = None
    """Labels of the job."""

    annotations: Optional[Dict[str, str]] = None
    """Annotations of the job."""

    machines: Optional[int] = field(
        default=None, metadata=of("numMachines", minimum=1, maximum=4096)
    )
    """Number of machines. Each machine is a pod. Scaling down removes the machines with the highest
    indices. Default: 1."""

    processes: Optional[int] = field(
        default=None, metadata=of("processesPerMachine", minimum=1, maximum=64)
    )
    """Processes on each machine. The world size is numMachines times this. Default: 1."""

    image: Optional[str] = field(default=None, metadata=of("image"))
    """The image with the command. Required with a command. Absent with trainer: the operator's
    trainer image."""

    command: Optional[List[str]] = field(default=None, metadata=of("command"))
    """The command of each process, or of each machine with launch PerMachine. $(NAME) is replaced
    by the process's own variable, as in $(RANK). Absent: the built-in trainer."""

    args: Optional[List[str]] = field(default=None, metadata=of("args"))
    """Arguments of the command."""

    working_dir: Optional[str] = field(default=None, metadata=of("workingDir"))
    """The folder in which processes start. Absent: the image's."""

    env: Optional[Dict[str, Union[str, Dict[str, Any]]]] = field(
        default=None, metadata=of("env", codec="env")
    )
    """Environment variables besides those that Lockstep sets for every process."""

    env_from: Optional[List[Dict[str, Any]]] = field(default=None, metadata=of("envFrom"))
    """Sources of many variables at once, as in a pod."""

    image_pull_secrets: Optional[List[ImagePullSecret]] = field(
        default=None, metadata=of("imagePullSecrets")
    )
    """Secrets to pull images."""

    priority_class_name: Optional[str] = field(default=None, metadata=of("priorityClassName"))
    """PriorityClass of the pods."""

    scheduler_name: Optional[str] = field(default=None, metadata=of("schedulerName"))
    """Scheduler of the pods."""

    launch: Optional[Literal["PerProcess", "PerMachine"]] = field(
        default=None, metadata=of("launch")
    )
    """PerProcess starts the command once for each rank. PerMachine starts it once for each machine,
    for torchrun or a program that starts the ranks itself. Default: PerProcess."""

    framework: Optional[Literal[
        "Torch", "Accelerate", "Jax", "TensorFlow", "Mpi", "Horovod", "None"
    ]] = field(
        default=None, metadata=of("framework")
    )
    """The framework. It selects the variables and services of a process. Default: Torch."""

    mpi: Optional[Mpi] = field(default=None, metadata=of("mpi"))
    """How the ranks of an MPI program start, with framework Mpi."""

    prestart: Optional[Literal["Never", "Auto", "Always"]] = field(
        default=None, metadata=of("prestart")
    )
    """Parks a second Python interpreter beside each rank, its imports done, for the next
    generation. Auto (if possible and memory has room), Always or Never. No effect with launch
    PerMachine or trainer. Default: Auto."""

    prestart_exclude: Optional[List[str]] = field(default=None, metadata=of("prestartExclude"))
    """Top-level packages that parked interpreters do not import, as in wandb."""

    trainer: Optional[Trainer] = field(default=None, metadata=of("trainer"))
    """The built-in trainer, which replaces `command`."""

    template: Optional[Dict[str, Any]] = field(default=None, metadata=of("template"))
    """A pod template for all other fields of a pod. Its container worker is the training
    container."""

    resources_per_process: Optional[ResourcesPerProcess] = field(
        default=None, metadata=of("resourcesPerProcess")
    )
    """Resources of each process. The worker container requests processesPerMachine times this."""

    resources_per_machine: Optional[Dict[str, Union[int, str]]] = field(
        default=None, metadata=of("resourcesPerMachine")
    )
    """Resources that are counted by machine, as in rdma/hca: 1 or hugepages-2Mi: 5Gi."""

    shared_memory: Optional[Union[int, str]] = field(default=None, metadata=of("sharedMemory"))
    """Size of /dev/shm, counted within memory, as in 16Gi."""

    topology: Optional[Topology] = field(default=None, metadata=of("topology"))
    """How processes are bound within a machine."""

    placement: Optional[Placement] = field(default=None, metadata=of("placement"))
    """The nodes of the machines."""

    scheduling: Optional[Scheduling] = field(default=None, metadata=of("scheduling"))
    """How the scheduler gives the machines their nodes."""

    network: Optional[Network] = field(default=None, metadata=of("network"))
    """How machines find each other."""

    elastic: Optional[Elastic] = field(default=None, metadata=of("elastic"))
    """Lets the gang run with fewer machines while others find no node."""

    spare_machines: Optional[int] = field(
        default=None, metadata=of("spareMachines", minimum=0, maximum=64)
    )
    """Spare pods with the resources and image of a machine. The replacement of a lost machine takes
    the node of a spare. Default: 0."""

    failure_policy: Optional[FailurePolicy] = field(default=None, metadata=of("failurePolicy"))
    """How Lockstep handles failures."""

    checkpoint: Optional[Checkpoint] = field(default=None, metadata=of("checkpoint"))
    """Checkpoints of the job."""

    grace_period: Optional[str] = field(default=None, metadata=of("gracePeriod"))
    """Time from SIGTERM to SIGKILL on a requested stop. The pod's terminationGracePeriodSeconds is
    15 s more; a drain must allow as much. Default: 2m."""

    health: Optional[Health] = field(default=None, metadata=of("health"))
    """Time limits for a job without progress."""

    preflight: Optional[Preflight] = field(default=None, metadata=of("preflight"))
    """Measures machines before ranks run on them. At most two slow machines are replaced."""

    logs: Optional[Logs] = field(default=None, metadata=of("logs"))
    """Output of the processes."""

    progress: Optional[ProgressSource] = field(default=None, metadata=of("progress"))
    """Where the step, the total and the loss of a rank come from."""

    suspend: Optional[bool] = field(default=None, metadata=of("suspend"))
    """true stops the job and keeps its checkpoints. Default: false."""

    restart_request: Optional[RestartRequest] = field(default=None, metadata=of("restartRequest"))
    """Asks for a new generation, uncharged. kubectl lockstep restart writes it."""

    sync: Optional[Sync] = field(default=None, metadata=of("sync"))
    """Present, as {}: users may run code of their own computers on all machines, by kubectl
    lockstep sync, if they may create pods/exec."""

    active_deadline_seconds: Optional[int] = field(
        default=None, metadata=of("activeDeadlineSeconds", minimum=0, maximum=2147483647)
    )
    """How long the job may run. 0: no limit. Default: 0."""

    ttl_seconds_after_finished: Optional[int] = field(
        default=None, metadata=of("ttlSecondsAfterFinished", minimum=0, maximum=2147483647)
    )
    """Seconds until a finished job is deleted. Absent: never."""

    success_policy: Optional[Literal["All", "Machine0", "Role"]] = field(
        default=None, metadata=of("successPolicy")
    )
    """The processes whose exit 0 ends the job: All, those of Machine0, or those of one Role
    (successRole). The others are then stopped and count as done. Default: All."""

    success_role: Optional[str] = field(default=None, metadata=of("successRole"))
    """With successPolicy Role: the role whose exit 0 ends the job."""

    roles: Optional[List[Role]] = field(default=None, metadata=of("roles"))
    """Names for ranks that do different work, in order of rank. The first role has ranks 0 to count
    - 1."""

    clean_pod_policy: Optional[Literal["None", "Running", "All"]] = field(
        default=None, metadata=of("cleanPodPolicy")
    )
    """Pods to delete at the end: None, Running pods, or All. Default: Running."""

    managed_by: Optional[str] = field(default=None, metadata=of("managedBy"))
    """The controller of the job. The operator ignores a job with another name.
    kueue.x-k8s.io/multikueue: the job runs on another cluster. Default: lockstep.dev/operator."""
