"""lockstep.train(): a function on every rank, and its value back."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import types
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, TypeVar, Union, cast

from lockstep import LockstepError
from lockstep_call import CALL, traceback_file, value_file
from lockstep_client import far
from lockstep_client.errors import JobFailed, WaitTimeout
from lockstep_client.job import Job
from lockstep_client.local import LocalRun
from lockstep_client.packages import need
from lockstep_client.spec import FailurePolicy

T = TypeVar("T")

def train(
    fn: Callable[..., T],
    *,
    machines: int = 1,
    processes: int = 1,
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    max_restarts: int = 0,
    env: Optional[Mapping[str, str]] = None,
    name: str = "",
    timeout: Optional[float] = None,
    echo: bool = True,
    cluster: bool = False,
    namespace: Optional[str] = None,
    kubeconfig: Optional[str] = None,
    context: Optional[str] = None,
    modules: Sequence[types.ModuleType] = (),
    python: str = "",
    **fields: Any,
) -> T:
    """Calls fn(*args, **kwargs) on machines x processes ranks of this computer or of a cluster.

        def fit(epochs):
            import torch.distributed as dist
            dist.init_process_group("gloo")
            ...
            return loss

        loss = lockstep.train(fit, machines=2, processes=2, args=[3])

    Returns rank 0's value. Each rank is a process with torchrun's environment. The function goes
    there by cloudpickle: one of a script or a notebook with the globals that it uses, one of a
    module by the module's name, which ranks import from this process's sys.path.

    max_restarts: how often a failed rank may be restarted, all ranks with it. env: variables of the
    ranks. name: the job's; else the function's. timeout: in seconds; then the job is stopped and
    WaitTimeout raised. echo: print what ranks print. fields: any other field of lockstep.Job.
    python: the ranks' Python; else this process's, on a cluster the image's python3.

    cluster=True calls it on a cluster, in containers of `image`:

        loss = lockstep.train(fit, machines=2, processes=8, args=[3], cluster=True,
                              image="registry.example/torch:2.9", namespace="research")

    namespace, kubeconfig, context: as for lockstep.submit(). The image needs Python of the same
    minor version and what the function imports, but neither Lockstep nor cloudpickle. The call has
    at most 127 KiB when compressed, the value 1 MiB; let ranks read larger data themselves.
    modules: local modules that the image lacks, which are sent with the function. Whoever may read
    the job can read the call. The job stays for an hour after its end.

    Raises JobFailed with the traceback of the rank that failed first. Ctrl-C stops the job.
    """
    if not callable(fn):
        raise TypeError(f"train() takes a function, not {type(fn).__name__}")
    if cluster:
        fields.setdefault("failure_policy", FailurePolicy(max_restarts=max_restarts))
        where = {"namespace": namespace, "kubeconfig": kubeconfig, "context": context}
        return cast(T, far.train(
            (fn, tuple(args), dict(kwargs or {})), name or _name(fn), machines=machines,
            processes=processes, env=env or {}, timeout=timeout, echo=echo,
            python=python or "python3", modules=modules, where=where, fields=fields))
    if namespace or kubeconfig or context or modules:
        raise TypeError("namespace, kubeconfig, context and modules need cluster=True")
    cloudpickle = need("cloudpickle", "cloudpickle", "lockstep.train")
    folder = tempfile.TemporaryDirectory(prefix="lockstep-train-")
    with folder:
        with open(os.path.join(folder.name, CALL), "wb") as file:
            try:
                cloudpickle.dump((fn, tuple(args), dict(kwargs or {})), file)
            except Exception as error:  # of anybody's __reduce__
                raise LockstepError(f"the function or its arguments can't be sent to other "
                                    f"processes: {error}") from error
        fields.setdefault("failure_policy", FailurePolicy(max_restarts=max_restarts))
        if max_restarts == 0:
            fields.setdefault("prestart", "Never")  # no process will be started again
        job = Job(name or _name(fn), machines=machines, processes=processes,
                  command=[python or sys.executable, "-m", "lockstep_call", folder.name],
                  env=_variables(env or {}), **fields)
        with LocalRun(job, echo=echo, options=["--local", "--no-hints"]) as run:
            try:
                status = run.wait(timeout)
            except JobFailed as error:
                raise JobFailed(run.name, error.status, _traceback(folder.name, error)) from None
            except WaitTimeout:
                run.delete(timeout=0)
                raise WaitTimeout(f"{job.name} took longer than {timeout:g} s and was stopped"
                                  ) from None
        generation = status.verdict.generation if status.verdict else None
        return cast(T, _value(value_file(folder.name, generation), job.name))


def _name(fn: Callable[..., Any]) -> str:
    """A name for a job: that of the function, in small letters, digits and dashes."""
    name = getattr(fn, "__name__", "") or type(fn).__name__
    name = "".join(each if each.isascii() and each.isalnum() else "-" for each in name.lower())
    name = name.strip("-0123456789")[:40].rstrip("-")
    return name or "train"


def _variables(env: Mapping[str, str]) -> Dict[str, Union[str, Dict[str, Any]]]:
    """The ranks' variables. What this process can import, ranks can, too."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [os.path.abspath(each) for each in sys.path if not each.endswith(".zip")]
    own = [env["PYTHONPATH"]] if "PYTHONPATH" in env else []
    return {**env, "PYTHONPATH": os.pathsep.join(dict.fromkeys([*own, *folders, here]))}


def _traceback(folder: str, error: JobFailed) -> Optional[str]:
    """What the rank that failed first wrote; None if it died otherwise."""
    failure = error.status.last_failure
    generation = failure.generation if failure else None
    try:
        with open(traceback_file(folder, generation, error.rank), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def _value(file: str, name: str) -> Any:
    try:
        with open(file, "rb") as value:
            return pickle.load(value)
    except FileNotFoundError:
        raise LockstepError(f"job {name} succeeded, but rank 0 left without a value; did the "
                            "function call sys.exit()?") from None
    except Exception as error:
        raise LockstepError(f"the value of {name} can't be read here: {error}") from error
