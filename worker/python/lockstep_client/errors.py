"""The exceptions of the client. All of them are a lockstep.LockstepError."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from lockstep import LockstepError

if TYPE_CHECKING:
    from lockstep_client.status import Status


class JobInvalid(LockstepError, ValueError):
    """The job is not valid. `problems` has one sentence for each mistake."""

    def __init__(self, problems: List[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.problems,)


class JobFailed(LockstepError):
    """The job has failed. The text names the root cause and ends with its last lines of stderr.

    rank, machine: the rank and the machine that caused the failure; None if no single one did.
    exit_code: of the job, as `lockstep run` exits with it.
    cause: one word, as in `status.verdict.cause`: ProcessExit, EarlyCrash, MachineLost, Hang, ...
    last_lines: the last lines that the rank wrote to stderr.
    traceback: what the function raised under lockstep.train(); else None.
    status: the job's whole status.
    """

    def __init__(self, name: str, status: Status, traceback: Optional[str] = None) -> None:
        self.name, self.status = name, status
        failure, verdict = status.last_failure, status.verdict
        self.rank = _index(failure.rank if failure else None)
        self.machine = _index(failure.machine if failure else None)
        self.exit_code = verdict.exit_code if verdict else None
        self.cause = (verdict.cause if verdict else None) or (failure.cause if failure else None)
        self.last_lines = ((failure.stderr if failure else None) or "").splitlines()
        self.traceback = traceback
        text = f"job {name} failed: {status.reason or 'for an unknown reason'}"
        lines = traceback.rstrip().splitlines() if traceback else self.last_lines
        if lines:
            of = "" if self.rank is None else f" of rank {self.rank}"
            text += f"\n{'traceback' if traceback else 'last lines'}{of}:\n"
            text += "\n".join(f"| {line}" for line in lines)
        super().__init__(text)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.name, self.status, self.traceback)


class JobStopped(LockstepError):
    """The job was suspended, stopped or deleted before it ended."""


class WaitTimeout(LockstepError, TimeoutError):
    """The time given to a call was up. The job goes on."""


class Unsupported(LockstepError):
    """This kind of run can't do that. The text says what to do in its place."""


class NotFound(LockstepError, LookupError):
    """The cluster has no such job, or the job has no such rank or machine."""


class ClusterError(LockstepError):
    """The cluster refused a request or gave no answer."""


class MissingProgram(LockstepError, FileNotFoundError):
    """A program of Lockstep is neither in PATH nor beside this Python."""


class MissingPackage(LockstepError, ImportError):
    """A call needs a Python package that is not installed. The text names it."""


def _index(value: Optional[int]) -> Optional[int]:
    """-1 is "none" in a status."""
    return None if value is None or value < 0 else value


for _each in (JobInvalid, JobFailed, JobStopped, WaitTimeout, Unsupported, NotFound, ClusterError,
              MissingProgram, MissingPackage):
    _each.__module__ = "lockstep"  # as users and tracebacks name them
