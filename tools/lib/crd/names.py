"""Names that rules speak of, and the forms of names. core/model/ has the same; tests/system/api-server/schema compares."""

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
