"""What a training program says to Lockstep, and asks of it.

    import lockstep

    resume_from = lockstep.latest()                  # a directory, or None: start at step 0
    for step in range(first, last):
        loss = train_one_step()
        lockstep.report(step=step, total_steps=last, loss=loss, tokens=batch_tokens)
        if step % 100 == 0 and rank == 0:
            directory = os.path.join(lockstep.checkpoint_dir() or "checkpoints", f"step-{step}")
            save(directory)
            lockstep.commit(directory)               # from here on it may be resumed from

A job that never imports this module is restarted all the same; docs/guides/programs.md says what it lacks.
Outside Lockstep (no LOCKSTEP_SOCKET in the environment) the same program runs unchanged: report()
does nothing, latest() is None, and commit() makes the directory durable where it is.

The module talks to the agent of its machine over the Unix socket LOCKSTEP_SOCKET, one JSON object
a line. It needs Python 3.8 and nothing else.

The client that runs jobs, lockstep.Job, lockstep.run() and their like, is the package
lockstep_client, which is loaded at the first use of one of its names (docs/guides/python.md).
"""

import atexit
import faulthandler
import itertools
import json
import math
import opcode
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import Any, Dict, List, Optional, Union

__all__ = [
    "AgentUnavailable",
    "CommitRefused",
    "LockstepError",
    "checkpoint_dir",
    "commit",
    "generation",
    "latest",
    "loaded",
    "memory_dir",
    "report",
    "restarts",
    "skips",
]

PathLike = Union[str, "os.PathLike[str]"]

_MAX_LINE = 64 * 1024  # bytes, newline included; the agent closes on more
_RECONNECT_SECONDS = 1.0
_EVIDENCE_SIGNAL = 51  # SIGRTMIN + 17; the agent knows the same
_END_SECONDS = 2.0  # that the interpreter's exit may wait for the agent


class LockstepError(Exception):
    """What this module raises."""


class AgentUnavailable(LockstepError):
    """The agent gave no answer: it is gone, or the time was up."""


class CommitRefused(LockstepError):
    """The agent said no: this generation is over, so another one may be resuming already.

    The directory is left where it was. There is nothing to retry: the process is about to be
    stopped.
    """


def report(
    step: Optional[int] = None,
    loss: Optional[float] = None,
    tokens: Optional[int] = None,
    total_steps: Optional[int] = None,
    **metrics: Any,
) -> None:
    """Says how far training is. Any call, even without arguments, is also a sign of life.

    step: steps done. loss: of this step. tokens: processed by this process in this step.
    total_steps: where training will end, for the percentage and the ETA. Further metrics by name:
    numbers, or what has `.item()` (a one-element tensor; on a GPU that waits for it). Other values
    are left out. NaN and infinity are told to failurePolicy.rules, and shown nowhere.

    Never raises and never waits: a report that can't be sent at once is dropped.
    """
    if _reports.path is None:
        return
    message: Dict[str, Any] = {"rank": _rank()}
    values = dict(metrics, step=step, loss=loss, tokens=tokens, total_steps=total_steps)
    if step is not None:
        values["checkpoint_load_seconds"], _reports.loaded = _reports.loaded, None
    for name, value in values.items():
        number = _number(value)
        if number is not None and not (isinstance(number, str) and name in ("step", "total_steps")):
            message[name] = number
    _reports.send(_line(message))


def latest(timeout: float = 60.0) -> Optional[str]:
    """The checkpoint directory to resume from, or None where training starts at the beginning.

    The same on every rank for the whole generation. Raises AgentUnavailable where there is an
    agent that gives no answer: to start at step 0 then would throw the run away.
    """
    if not os.environ.get("LOCKSTEP_SOCKET"):
        return None
    directory = _ask({"latest": True}, timeout).get("latest")
    return None if directory is None else str(directory)


def commit(directory: PathLike, timeout: float = 60.0) -> str:
    """Makes a complete checkpoint the one to resume from, and returns where it is now.

    Call it on one rank, when every rank has written its part. The files are flushed to disk, the
    agent is asked whether this generation still runs on every machine, and on its yes the
    directory is moved to its final place. Raises CommitRefused, AgentUnavailable or OSError; the
    last committed checkpoint stays the one to resume from then.

    A directory in memory_dir() is this machine's part of a checkpoint in memory: call it on one
    rank of every machine, with the same name. It counts once all have; nothing is flushed.
    """
    source = os.path.abspath(os.fspath(directory))
    # A process that outlives its generation must not commit for the next what it saved in the last.
    request = {"commit": os.path.basename(source)}
    now = generation()
    if now is not None:
        request["generation"] = now
    if os.path.dirname(source) == memory_dir():
        return _ask_to_commit(dict(request, memory=True), timeout)
    _sync_tree(source)
    if not os.environ.get("LOCKSTEP_SOCKET"):
        _sync(os.path.dirname(source))
        return source
    final = _ask_to_commit(request, timeout)
    if final != source:
        os.rename(source, final)
        _sync(os.path.dirname(source))
    _sync(os.path.dirname(final))
    _write_hint(final)
    return final


def loaded(seconds: float) -> None:
    """Says how long this process took to load its checkpoint; the next report of a step tells it.

    The job's ledger has that apart from the rest of the start. lockstep_torch.load() calls it.
    """
    _reports.loaded = seconds


def memory_dir() -> Optional[str]:
    """Where this machine's parts of checkpoints in memory are written; None if the job has none."""
    local = os.environ.get("LOCKSTEP_LOCAL_DIR")
    directory = os.path.join(os.path.abspath(local), "checkpoints") if local else None
    return directory if directory and os.path.isdir(directory) else None


def checkpoint_dir() -> Optional[str]:
    """This generation's own directory, where checkpoints are written until they are committed."""
    return os.environ.get("LOCKSTEP_CHECKPOINT_DIR") or None


def generation() -> Optional[str]:
    """The generation this process belongs to, such as "1-3"; None outside Lockstep."""
    return os.environ.get("LOCKSTEP_GENERATION") or None


def restarts() -> int:
    """How often the job has been restarted before this generation; 0 outside Lockstep."""
    try:
        return int(os.environ.get("LOCKSTEP_RESTARTS", "0"))
    except ValueError:
        return 0


def skips(step: int) -> bool:
    """Whether the job leaves out the data of this step, after a loss that broke a rule.

    The program then takes the step's data and goes on to the next step without training, so that
    each step has the same data in every generation.
    """
    for part in os.environ.get("LOCKSTEP_SKIP_STEPS", "").split(","):
        first, dash, last = part.partition("-")
        try:
            if dash and int(first) <= step <= int(last):
                return True
        except ValueError:
            continue
    return False


def _ask_to_commit(request: Dict[str, Any], timeout: float) -> str:
    reply = _ask(request, timeout)
    if reply.get("ok") is not True:
        raise CommitRefused(str(reply.get("reason") or "the agent gave no reason"))
    return str(reply["final"])


def _rank() -> int:
    try:
        return int(os.environ.get("RANK", "0"))
    except ValueError:
        return 0


def _number(value: Any) -> Union[int, float, str, None]:
    try:
        if hasattr(value, "item"):
            value = value.item()
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, int):
            return value
        number = float(value)
    except Exception:  # of somebody's tensor type; a report must not end a training run
        return None
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _line(message: Dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class _Reports:
    """The connection that reports go out on.

    It is non-blocking. A line of which only a part fitted is finished before the next one starts,
    so that the agent never sees half a line; lines in between are dropped.
    """

    def __init__(self) -> None:
        self.path = os.environ.get("LOCKSTEP_SOCKET") or None
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None
        self._unsent = b""
        self._next_connect = 0.0
        self.loaded: Optional[float] = None  # what loaded() said, until it is told

    def send(self, line: bytes) -> None:
        if len(line) > _MAX_LINE or not self._lock.acquire(blocking=False):
            return
        try:
            if self._connect():
                self._write(line)
        except OSError:
            self._close()
        finally:
            self._lock.release()

    def _connect(self) -> bool:
        if self._socket is not None:
            return True
        now = time.monotonic()
        if now < self._next_connect:
            return False
        self._next_connect = now + _RECONNECT_SECONDS
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.connect(str(self.path))
        return True

    def _write(self, line: bytes) -> None:
        assert self._socket is not None
        data = self._unsent or line
        try:
            sent = self._socket.send(data, socket.MSG_NOSIGNAL)
            if self._unsent and sent == len(data):
                self._unsent = b""
                data = line
                sent = self._socket.send(data, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return
        self._unsent = data[sent:]

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._unsent = b""


_reports = _Reports()
_ids = itertools.count(1)
_stacks: Optional[int] = None


def _arm() -> None:
    """Lets the agent ask where this process stands, to tell who waits for whom in a gang that hangs.

    On a real-time signal that it sends to no process but one that catches it, faulthandler appends
    each thread's stack to a file in the agent's folder, which begins with our descriptor of it.
    """
    global _stacks
    path = os.environ.get("LOCKSTEP_SOCKET")
    if not path:
        return
    file = os.path.join(os.path.dirname(path), "stacks", str(os.getpid()))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        if _stacks is None and signal.getsignal(_EVIDENCE_SIGNAL) is not signal.SIG_DFL:
            return  # it is the program's
        descriptor = os.open(file, flags, 0o600)
        os.write(descriptor, b"%d\n" % descriptor)
        faulthandler.register(_EVIDENCE_SIGNAL, file=descriptor, all_threads=True, chain=False)
    except (AttributeError, OSError, RuntimeError, ValueError):
        return
    if _stacks is not None:
        os.close(_stacks)
    _stacks = descriptor


def __getattr__(name: str) -> Any:
    """Names of the client, so that a rank that needs none of them imports none of it."""
    if name.startswith("_"):
        raise AttributeError(f"module 'lockstep' has no attribute {name!r}")
    try:
        import lockstep_client
    except ModuleNotFoundError as error:
        if error.name != "lockstep_client":
            raise
        raise AttributeError(
            f"module 'lockstep' has no attribute {name!r}, and the package lockstep_client, which "
            "runs jobs, is not installed"
        ) from None
    if name not in lockstep_client.__all__:
        raise AttributeError(f"module 'lockstep' has no attribute {name!r}")
    return getattr(lockstep_client, name)


def __dir__() -> List[str]:
    """For editors and notebooks, which complete names."""
    try:
        from lockstep_client import __all__ as names
    except ImportError:
        names = []
    return sorted({*globals(), *names})


def _after_fork() -> None:
    # A data loader's worker must not write into its parent's connection, nor into its file.
    global _reports
    _reports = _Reports()
    _arm()


_arm()
os.register_at_fork(after_in_child=_after_fork)


class _End:
    """Says that the program has ended, before the interpreter is taken apart.

    Threads of libraries crash there now and then: a thread of torch's gloo that gives back a tensor
    late wants an interpreter that is gone, and aborts. The agent counts a rank as finished that
    crashes after this. An uncaught error or sys.exit() ends the program elsewhere than at its last
    line; that is left to the exit code.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.main = None  # the frame of the program's own text
        main = getattr(sys.modules.get("__main__"), "__dict__", None)
        frame: Optional[FrameType] = sys._getframe()
        while frame is not None:
            if frame.f_globals is main and frame.f_code.co_name == "<module>":
                self.main = frame
            frame = frame.f_back
        atexit.register(self.say)

    def returned(self) -> bool:
        if self.main is None or self.main.f_lasti < 0:
            return False
        last = opcode.opname[self.main.f_code.co_code[self.main.f_lasti]]
        return last in ("RETURN_VALUE", "RETURN_CONST")

    def say(self) -> None:
        if os.getpid() != self.pid or not self.returned():
            return
        try:
            _ask({"done": generation(), "pid": self.pid}, _END_SECONDS)
        except LockstepError:
            pass  # the exit code says it


if os.environ.get("LOCKSTEP_SOCKET") and generation():
    _End()


def _ask(request: Dict[str, Any], timeout: float) -> Dict[str, Any]:
    """One question on a connection of its own, so that reports go on while it waits."""
    deadline = time.monotonic() + timeout
    message = dict(request, rank=_rank(), id=next(_ids))
    line = _line(message)
    if len(line) > _MAX_LINE:
        raise ValueError("a checkpoint directory's name must fit a line of 64 KiB")
    path = os.environ["LOCKSTEP_SOCKET"]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_left(deadline))
            connection.connect(path)
            connection.sendall(line)
            reply = json.loads(_read_line(connection, deadline))
    except socket.timeout:
        raise AgentUnavailable(f"no answer from the agent at {path} within {timeout:g} s") from None
    except (OSError, ValueError) as error:
        raise AgentUnavailable(f"cannot ask the agent at {path}: {error}") from error
    if not isinstance(reply, dict) or reply.get("id") != message["id"]:
        raise AgentUnavailable(f"the agent at {path} answered another question: {reply!r:.200}")
    return reply


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout()
    return left


def _read_line(connection: socket.socket, deadline: float) -> bytes:
    data = b""
    while b"\n" not in data:
        if len(data) > _MAX_LINE:
            raise ValueError("its answer is longer than 64 KiB")
        connection.settimeout(_left(deadline))
        chunk = connection.recv(4096)
        if not chunk:
            raise ConnectionResetError("it closed the connection without an answer")
        data += chunk
    return data[: data.index(b"\n")]


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise(error: OSError) -> None:
    raise error


def _sync_tree(directory: str) -> None:
    """Flushes every file below a directory, then every directory, deepest first."""
    for folder, _, files in os.walk(directory, topdown=False, onerror=_raise):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                _sync(path)
        _sync(folder)


def _write_hint(final: str) -> None:
    """LATEST in the checkpoint folder, for people: what is resumed from is what latest() says."""
    root = final
    for _ in ("000003.step-1200", "2-5", "checkpoints"):
        root = os.path.dirname(root)
    temporary = os.path.join(root, f".LATEST.{os.getpid()}")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(os.path.relpath(final, root) + "\n")
        os.replace(temporary, os.path.join(root, "LATEST"))
    except OSError:  # the checkpoint itself is in place
        try:
            os.unlink(temporary)
        except OSError:
            pass
