"""What a run on this computer and a run on a cluster have in common."""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import time
from types import TracebackType
from typing import Any, AsyncIterator, Iterator, List, Optional, Tuple, Type, TypeVar

from lockstep import LockstepError
from lockstep_client import view
from lockstep_client.errors import JobFailed, JobStopped, NotFound, WaitTimeout
from lockstep_client.job import Job
from lockstep_client.status import Status
from lockstep_client.view import Live

ENDED = ("Succeeded", "Failed")
_SLICE_SECONDS = 0.5  # after which a cancelled call for asyncio has left its thread
R = TypeVar("R", bound="Run")


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened to a job."""

    message: str
    reason: str = ""  # one word, as docs/reference/events.md lists them; "" on this computer
    time: str = ""  # RFC 3339; "" if it is not known
    warning: bool = False


class Run(abc.ABC):
    """A job that runs, or has run. A context manager: leaving the block stops what still runs."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.name

    @property
    @abc.abstractmethod
    def status(self) -> Status:
        """The job's status now. Every field may be None, all of them before the job has begun."""

    @property
    def state(self) -> str:
        """`status.state`: Running, Succeeded, Failed, ...; Pending before the job has begun."""
        return self.status.state or "Pending"

    def wait(self, timeout: Optional[float] = None) -> Status:
        """Returns the status when the job has succeeded.

        timeout: in seconds; None waits for as long as the job takes. Raises JobFailed with the
        root cause, JobStopped if somebody stopped or deleted the job, and WaitTimeout, after which
        the job goes on.

        On this computer it prints the job's output if `echo`. Ctrl-C then stops the job as
        `suspend` does, and a second Ctrl-C kills it. On a cluster Ctrl-C ends the wait only, and
        five minutes without an API server raise ClusterError. In a notebook it also shows the job's
        state, which is replaced in place.
        """
        return self._wait(Deadline(timeout, f"job {self.name}"), Live())

    async def wait_async(self, timeout: Optional[float] = None) -> Status:
        """`wait` for asyncio. The job continues if the task is cancelled."""
        deadline, live = Deadline(timeout, f"job {self.name}"), Live()
        while True:
            try:
                slice_ = Deadline(deadline.left(_SLICE_SECONDS), f"job {self.name}")
                return await asyncio.to_thread(self._wait, slice_, live)
            except WaitTimeout:
                deadline.left(0)

    @abc.abstractmethod
    def _wait(self, deadline: Deadline, live: Live) -> Status:
        """What `wait` does, until the deadline."""

    def logs(self, rank: Optional[int] = None, machine: Optional[int] = None,
             follow: bool = False, timeout: Optional[float] = None) -> Iterator[str]:
        """The lines that the processes printed, without line ends.

        rank, machine: only its lines. A rank's lines come without the prefix that names it.
        follow: go on until the job has ended. timeout: in seconds, after which it raises
        WaitTimeout. Raises NotFound if the job has no such rank or machine.
        """
        lines = self._logs(rank, machine, follow, Deadline(timeout, f"logs of job {self.name}"))
        return (line for line in lines if line is not None)

    async def logs_async(self, rank: Optional[int] = None, machine: Optional[int] = None,
                         follow: bool = False, timeout: Optional[float] = None
                         ) -> AsyncIterator[str]:
        """`logs` for asyncio: `async for line in run.logs_async(rank=0, follow=True)`."""
        deadline = Deadline(timeout, f"logs of job {self.name}")
        lines = await asyncio.to_thread(self._logs, rank, machine, follow, deadline)
        over = False
        while not over:
            line, over = await asyncio.to_thread(_next_line, lines)
            if line is not None:
                yield line

    @abc.abstractmethod
    def _logs(self, rank: Optional[int], machine: Optional[int], follow: bool,
              deadline: Deadline) -> Iterator[Optional[str]]:
        """What `logs` returns. With `follow`, a None comes each second in which no line does."""

    @abc.abstractmethod
    def events(self) -> List[Event]:
        """What happened to the job, the oldest first."""

    @abc.abstractmethod
    def suspend(self) -> None:
        """Stops the processes, which have `grace_period` to save."""

    @abc.abstractmethod
    def resume(self) -> None:
        """Continues a suspended job from its last checkpoint."""

    @abc.abstractmethod
    def restart(self, reason: str = "", at_commit: bool = False) -> None:
        """Asks for a new generation: all ranks stop and start again on the machines they have.

        It costs no budget and has no backoff. reason: for the history, at most 256 bytes.
        at_commit: wait until the program commits a checkpoint, so that no step is done again.
        Returns once the request is recorded. Raises Unsupported if the job has ended or stops.
        """

    @abc.abstractmethod
    def scale(self, machines: int) -> None:
        """Changes how many machines the job has."""

    @abc.abstractmethod
    def delete(self, timeout: float = 300.0) -> None:
        """Stops the job and removes what it left, within `timeout` seconds, else WaitTimeout."""

    def _verdict(self, status: Status) -> Optional[Status]:
        """The status of a job that succeeded; None while it has not ended."""
        if status.state == "Failed":
            raise JobFailed(self.name, status)
        return status if status.state == "Succeeded" else None

    def _machine_of(self, rank: Optional[int], machine: Optional[int]) -> Optional[int]:
        """The machine whose lines are wanted, or None for all of them."""
        machines, processes = self.job.machines or 1, self.job.processes or 1
        if rank is not None and not 0 <= rank < machines * processes:
            raise NotFound(f"job {self.name} has ranks 0 to {machines * processes - 1}, not {rank}")
        if machine is not None and not 0 <= machine < machines:
            raise NotFound(f"job {self.name} has machines 0 to {machines - 1}, not {machine}")
        if rank is None:
            return machine
        of = rank // processes
        if machine is not None and machine != of:
            raise NotFound(f"rank {rank} is on machine {of}, not {machine}")
        return of

    def __enter__(self: R) -> R:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        try:
            if self.state not in ENDED:
                self.delete()
        except (NotFound, JobStopped):
            pass

    def __repr__(self) -> str:
        return view.line(self.name, self._shown_status())

    def _repr_html_(self) -> str:
        return view.html(self.name, self._shown_status())

    def _shown_status(self) -> Status:
        """A view must not raise, whatever has become of the job."""
        try:
            return self.status
        except LockstepError as error:
            state: Any = "Unknown"  # none of a job's own states
            return Status(state=state, reason=str(error))


def _next_line(lines: Iterator[Optional[str]]) -> Tuple[Optional[str], bool]:
    """The next line, or None if the slice brings none; and whether the lines are over."""
    end = time.monotonic() + _SLICE_SECONDS
    for line in lines:
        if line is not None or time.monotonic() >= end:
            return line, False
    return None, True


class Deadline:
    """The end of a call's time."""

    def __init__(self, timeout: Optional[float], what: str) -> None:
        self._timeout, self._what = timeout, what
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self, most: float) -> float:
        """Seconds until the end, at most `most`. Raises WaitTimeout at the end."""
        if self._end is None:
            return most
        left = self._end - time.monotonic()
        if left <= 0:
            raise WaitTimeout(f"{self._what} took longer than {self._timeout:g} s; the job continues")
        return min(left, most)
