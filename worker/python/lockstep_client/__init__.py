"""The client of Lockstep: runs jobs from Python, on this computer and on a cluster.

    import lockstep

    with lockstep.run(lockstep.Job("gpt", machines=2, command=["python3", "train.py"])) as run:
        run.wait()

`lockstep` offers all names of this package as its own, and loads it at the first use of one.
docs/guides/python.md is its guide.
"""

from lockstep_client.calls import train
from lockstep_client.cluster import ClusterRun, attach, submit
from lockstep_client.errors import (
    ClusterError,
    JobFailed,
    JobInvalid,
    JobStopped,
    MissingPackage,
    MissingProgram,
    NotFound,
    Unsupported,
    WaitTimeout,
)
from lockstep_client.job import Job
from lockstep_client.local import LocalRun, run
from lockstep_client.runs import Event, Run
from lockstep_client.spec import (
    Checkpoint,
    CpuMap,
    Elastic,
    FailurePolicy,
    FailureRule,
    Health,
    ImagePullSecret,
    Logs,
    MemoryCheckpoints,
    ModelShape,
    Mpi,
    Network,
    Placement,
    Preflight,
    ProgressSource,
    ResourcesPerProcess,
    Role,
    Scheduling,
    Topology,
    Trainer,
    TrainerParallel,
)
from lockstep_client.status import Status

__all__ = [
    "Checkpoint",
    "ClusterError",
    "ClusterRun",
    "CpuMap",
    "Elastic",
    "Event",
    "FailurePolicy",
    "FailureRule",
    "Health",
    "ImagePullSecret",
    "Job",
    "JobFailed",
    "JobInvalid",
    "JobStopped",
    "LocalRun",
    "Logs",
    "MemoryCheckpoints",
    "MissingPackage",
    "MissingProgram",
    "ModelShape",
    "Mpi",
    "Network",
    "NotFound",
    "Placement",
    "Preflight",
    "ProgressSource",
    "ResourcesPerProcess",
    "Role",
    "Run",
    "Scheduling",
    "Status",
    "Topology",
    "Trainer",
    "TrainerParallel",
    "Unsupported",
    "WaitTimeout",
    "attach",
    "run",
    "submit",
    "train",
]
