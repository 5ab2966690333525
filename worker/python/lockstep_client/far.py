"""lockstep.train() on a cluster: the call travels in a variable of the job, the value in rank 0's log."""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import sys
import threading
import time
import types
import uuid
import zlib
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

from lockstep import LockstepError
from lockstep_call import VALUE
from lockstep_client.cluster import ClusterRun, submit
from lockstep_client.errors import ClusterError, JobFailed, JobStopped, NotFound, WaitTimeout
from lockstep_client.job import Job
from lockstep_client.packages import need
from lockstep_client.runs import Deadline

CALL = "LSTRAIN_CALL"  # the variable
# Characters of it. The kernel takes 128 KiB of one variable, with its name.
MOST_CALL = 128 * 1024 - len(CALL) - 2
_KEPT_SECONDS = 3600  # of a job that has ended
_LOG_SECONDS = 60.0  # in which the last lines of a job that has ended come
_AGAIN_SECONDS = 1.0
# What each rank runs: its files hold all that the call needs beside Python itself.
_BOOT = f"""\
import base64, os, pickle, sys, tempfile, zlib
sent = pickle.loads(zlib.decompress(base64.b64decode(os.environ.pop("{CALL}"))))
here = "%d.%d" % sys.version_info[:2]
if here != sent["python"]:
    print("lockstep.train: the image has Python " + here + ", the caller has " + sent["python"]
          + "; both must be equal, because functions are sent as bytecode", file=sys.stderr)
    sys.exit(2)
folder = tempfile.mkdtemp(prefix="lockstep-call-")
for name, text in sent["files"].items():
    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
sys.path.insert(0, folder)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
import lockstep_call
lockstep_call.far(sent["call"])
"""


def train(call: Tuple[Any, ...], name: str, *, machines: int, processes: int,
          env: Mapping[str, str], timeout: Optional[float], echo: bool, python: str,
          modules: Sequence[types.ModuleType], where: Mapping[str, Optional[str]],
          fields: Dict[str, Any]) -> Any:
    """What rank 0 returned."""
    text = packed(call, modules)
    fields.setdefault("prestart", "Never")
    fields.setdefault("ttl_seconds_after_finished", _KEPT_SECONDS)
    job = Job(f"{name}-{uuid.uuid4().hex[:6]}", machines=machines, processes=processes,
              command=[python, "-c", _BOOT], env={**env, CALL: text}, **fields)
    run = submit(job, **where)
    try:
        return _wait(run, timeout, echo)
    except (KeyboardInterrupt, WaitTimeout) as error:
        with contextlib.suppress(LockstepError):
            run.delete()
        if isinstance(error, WaitTimeout):
            raise WaitTimeout(f"{job.name} took longer than {timeout:g} s and was deleted"
                              ) from None
        raise


def packed(call: Tuple[Any, ...], modules: Sequence[types.ModuleType]) -> str:
    """The value of the variable. Raises LockstepError if it is too long."""
    cloudpickle = need("cloudpickle", "cloudpickle", "lockstep.train")
    with contextlib.ExitStack() as stack:
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
            stack.callback(cloudpickle.unregister_pickle_by_value, module)
        try:
            data = cloudpickle.dumps(call)
        except Exception as error:  # of anybody's __reduce__
            raise LockstepError(f"the function or its arguments can't be sent to other "
                                f"processes: {error}") from error
    sent = {"python": "%d.%d" % sys.version_info[:2], "files": _files(cloudpickle), "call": data}
    text = base64.b64encode(zlib.compress(pickle.dumps(sent, 4), 9)).decode("ascii")
    if len(text) > MOST_CALL:
        raise LockstepError(
            f"the function, its arguments and modules have {len(text) >> 10} KiB when compressed, "
            f"and a job takes {MOST_CALL >> 10} KiB: let ranks read data from a volume or an "
            "object store, and put modules into the image")
    return text


def _files(cloudpickle: Any) -> Dict[str, str]:
    """Name -> text of the modules that the image need not have."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = {f"{name}.py": os.path.join(here, f"{name}.py") for name in ("lockstep", "lockstep_call")}
    folder = os.path.dirname(cloudpickle.__file__)
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            paths[f"cloudpickle/{name}"] = os.path.join(folder, name)
    files = {}
    for name, path in paths.items():
        with open(path, encoding="utf-8") as file:
            files[name] = file.read()
    return files


def _wait(run: ClusterRun, timeout: Optional[float], echo: bool) -> Any:
    deadline = Deadline(timeout, f"job {run.name}")
    printer = threading.Thread(target=_print, args=(run,), daemon=True,
                               name=f"output of {run.name}")
    if echo:
        printer.start()
    try:
        status = run.wait(None if timeout is None else deadline.left(timeout))
    except JobFailed:
        if echo:
            printer.join(_LOG_SECONDS)  # it may show why
        raise
    if echo:
        printer.join(_LOG_SECONDS)
    generation = (status.verdict.generation if status.verdict else None) or ""
    return _value(run, generation)


def _print(run: ClusterRun) -> None:
    with contextlib.suppress(LockstepError):  # the job goes on without its output
        for line in run.logs(follow=True):
            if VALUE not in line:
                print(line, flush=True)


def _value(run: ClusterRun, generation: str) -> Any:
    """Asks again while the log can't be read: the job is done, and would have to be run again."""
    end = time.monotonic() + _LOG_SECONDS
    while True:
        try:
            text = _joined(run.logs(rank=0), generation)
            break
        except (NotFound, JobStopped):
            text = None
            break
        except ClusterError:
            if time.monotonic() > end:
                raise
            time.sleep(_AGAIN_SECONDS)
    if text is None:
        raise LockstepError(f"job {run.name} succeeded, but rank 0's log has no value; did the "
                            "function call sys.exit(), or was its pod deleted?")
    try:
        return pickle.loads(zlib.decompress(base64.b64decode(text)))
    except Exception as error:
        raise LockstepError(f"the value of {run.name} can't be read here: {error}") from error


def _joined(lines: Iterator[str], generation: str) -> Optional[str]:
    """The value's text out of rank 0's lines; None if a piece is missing."""
    pieces: Dict[int, str] = {}
    count = None
    for line in lines:
        _, mark, rest = line.partition(VALUE + " ")
        words = rest.split()
        if not mark or len(words) != 4 or words[0] != generation:
            continue
        pieces[int(words[1])], count = words[3], int(words[2])
    whole = count is not None and set(pieces) == set(range(count))
    return "".join(pieces[each] for each in range(count or 0)) if whole else None
