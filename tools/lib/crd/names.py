"""Names that rules speak of, and the forms of names. core/model/ has the same; tests/system/api-server/schema compares."""

# core/plan/environment.cc
RESERVED_VARIABLES = [
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
    "NODE_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_USE_AGENT_STORE", "PET_NNODES", "PET_NPROC_PER_NODE",
    "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_MAX_RESTARTS",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE", "TF_CONFIG",
]

# core/model/names.cc: on everything made for a job.
OWN_LABELS = [
    "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component",
    "app.kubernetes.io/managed-by",
]
OWN_LABEL_PREFIX = "lockstep.dev/"
OWN_NAME_PREFIX = "lockstep-"  # of containers and volumes

# core/plan/launcher.cc
TORCHRUN = ["torchrun"]
TORCHRUN_MODULES = ["torch.distributed.run", "torch.distributed.launch"]
UNSUPPORTED_LAUNCHERS = [
    "deepspeed", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "horovodrun", "colossalai",
    "srun", "accelerate-launch",
]
UNSUPPORTED_MODULES = [
    "accelerate.commands.launch", "accelerate.commands.accelerate_cli",
    "deepspeed.launcher.runner", "horovod.runner",
]

LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}([.]{LABEL})*"
QUALIFIED_NAME = rf"({SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
INDEX_LIST = "[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*"
JOB_NAME = "[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
VARIABLE = "[-._a-zA-Z][-._a-zA-Z0-9]*"


def listed(names):
    """A CEL list of texts."""
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


def one_of(names):
    """A regular expression."""
    return "(" + "|".join(name.replace(".", "[.]") for name in names) + ")"


def matches(pattern, value="self"):
    """That the whole of a CEL text matches."""
    return f"{value}.matches(r'^{pattern}$')"
