"""Jobs on this computer: `lockstep run` as a child of this process."""

from __future__ import annotations

import atexit
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from typing import IO, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

from lockstep import LockstepError
from lockstep_client import program
from lockstep_client.errors import JobInvalid, JobStopped, Unsupported
from lockstep_client.job import Job
from lockstep_client.runs import Deadline, Event, Run
from lockstep_client.status import Status
from lockstep_client.view import Live

# What is kept of the processes' output; `logs.path` keeps all of it in files.
KEPT_LINES = 100_000
KEPT_CHARACTERS = 64 * 1024 * 1024
KEPT_EVENTS = 10_000
_LONGEST_LINE = 64 * 1024  # bytes; a longer one comes in pieces
_LOOK_SECONDS = 0.25  # between two looks at the status
_KILL_SECONDS = 30.0  # that `lockstep run` may take to end once it kills
_OPEN_SECONDS = 30.0  # that a detached program may hold the output open after `lockstep run`
_USAGE = 2  # the exit code of `lockstep run` for a job that is not valid
_PREFIX = re.compile(r"\[m(\d+)(?: r(\d+))?\] ?")
_OWN = "lockstep: "
# Ends a run whose Python died without a word: its end of the pipe is then closed. $0 is the run's
# process, $1 its folder. A zombie has ended: PID 1 of a container may never reap it.
_GUARD = """\
read -r line && exit
kill -TERM "$0"
while kill -0 "$0"; do
    if read -r stat <"/proc/$0/stat"; then
        case ${stat##*) } in Z*) break ;; esac
    fi
    sleep 0.2
done
rm -rf -- "$1"
"""


def run(job: Job, *, echo: bool = True, options: Sequence[str] = ()) -> LocalRun:
    """Runs a job on this computer by `lockstep run`, and returns while it runs.

        with lockstep.run(lockstep.Job("gpt", machines=2, command=["python3", "train.py"])) as run:
            run.wait(timeout=3600)

    echo: `wait` prints what the processes print, in a notebook into its cell.
    options: further options of `lockstep run`, such as ["--hosts", "a,b"].

    The job ends with this Python process at the latest. `checkpoint.path` keeps its checkpoints,
    from which the next run continues. Raises JobInvalid and MissingProgram.
    """
    if not isinstance(job, Job):
        raise TypeError(f"run() takes a lockstep.Job, not {type(job).__name__}; lockstep.train() "
                        "takes a function")
    return LocalRun(job, echo=echo, options=options)


class _Line(NamedTuple):
    machine: Optional[int]
    rank: Optional[int]
    text: str  # with its prefix
    start: int  # of the text behind the prefix


class LocalRun(Run):
    """A job on this computer. lockstep.run() makes it."""

    def __init__(self, job: Job, echo: bool = True, options: Sequence[str] = ()) -> None:
        super().__init__(job)
        self.echo = echo
        self._options = list(options)
        self._pid = os.getpid()
        self._ending = threading.RLock()  # guards _ended
        self._changed = threading.Condition()
        self._lines: Deque[_Line] = collections.deque()
        self._characters = 0  # in them
        self._count = 0  # of lines that ever came
        self._own: Deque[str] = collections.deque(maxlen=KEPT_EVENTS)
        self._own_count = 0
        self._shown = self._own_shown = 0  # how many of both wait() has printed
        self._text = json.dumps(job.manifest())
        self._begin()

    def _begin(self) -> None:
        program_path = program.find()
        # Not a TemporaryDirectory, which a fork of this process would remove at its exit.
        self._folder = tempfile.mkdtemp(prefix="lockstep-run-")
        self._status = Status()
        self._ended: Optional[Status] = None
        self._failure: Optional[LockstepError] = None  # of `lockstep run` itself
        self._output_ends: Optional[float] = None  # set once `lockstep run` has ended
        try:
            self._start(program_path)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        _running.add(self)
        assert self._process.stdout is not None and self._process.stderr is not None
        # Of this process: resume() begins a new set, beside which an old reader may still live.
        self._open = open_ = {self._process.stdout, self._process.stderr}
        for what, stream, keep in (("output", self._process.stdout, self._keep),
                                   ("messages", self._process.stderr, self._keep_own)):
            threading.Thread(target=self._read, args=(stream, keep, open_),
                             name=f"{what} of {self.name}", daemon=True).start()

    def _start(self, program_path: str) -> None:
        file = self._path("job.json")
        with open(file, "w", encoding="utf-8") as out:
            out.write(self._text)
        # Its own session, because Ctrl-C is this process's to pass on.
        self._process = subprocess.Popen(
            [program_path, "run", "--no-table", "--report", self._path("report.json"),
             "--status", self._path("status.json"), *self._options, file],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)
        try:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, str(self._process.pid), self._folder],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    # ---- what it prints ----

    def _read(self, stream: IO[bytes], keep: Callable[[str], None],
              open_: Set[IO[bytes]]) -> None:
        with stream:
            for line in iter(lambda: stream.readline(_LONGEST_LINE), b""):
                text = line.decode("utf-8", "replace").rstrip("\n")
                with self._changed:
                    keep(text)
                    self._changed.notify_all()
        with self._changed:
            open_.discard(stream)
            self._changed.notify_all()

    def _keep(self, text: str) -> None:
        found = _PREFIX.match(text)
        machine = int(found[1]) if found else None
        rank = int(found[2]) if found and found[2] else None
        self._lines.append(_Line(machine, rank, text, found.end() if found else 0))
        self._characters += len(text)
        self._count += 1
        while len(self._lines) > KEPT_LINES or self._characters > KEPT_CHARACTERS:
            self._characters -= len(self._lines.popleft().text)

    def _keep_own(self, text: str) -> None:
        self._own.append(text[len(_OWN):] if text.startswith(_OWN) else text)
        self._own_count += 1

    def _since(self, count: int) -> List[_Line]:
        """The lines after the first `count`, as far as they are kept. Holds the lock."""
        return list(self._lines)[max(0, len(self._lines) - (self._count - count)):]

    def _print_new(self) -> None:
        with self._changed:
            lines, own = self._since(self._shown), list(self._own)
            own = own[max(0, len(own) - (self._own_count - self._own_shown)):]
            left_out = self._count - self._shown - len(lines)
            self._shown, self._own_shown = self._count, self._own_count
        if not self.echo:
            return
        if left_out:
            print(f"({left_out} lines are left out)")
        for line in lines:
            print(line.text)
        for text in own:
            print(_OWN + text, file=sys.stderr)
        if lines:
            sys.stdout.flush()

    # ---- how it is ----

    @property
    def status(self) -> Status:
        if self._poll() and self._ended is not None:
            return self._ended
        self._status = _load(self._path("status.json")) or self._status
        return self._status

    def _poll(self) -> bool:
        """Whether the run has ended; then its report is read, once, by whichever thread.

        It does not block, because `status` and each wait call it.
        """
        with self._ending:
            if self._ended is None and self._process.poll() is not None and self._output_ended():
                self._finish()
            return self._ended is not None

    def _output_ended(self) -> bool:
        """Whether every line of the ended `lockstep run` is here, or is waited for no longer."""
        if self._output_ends is None:
            self._output_ends = time.monotonic() + _OPEN_SECONDS
        with self._changed:
            return not self._open or time.monotonic() >= self._output_ends

    def _await_output(self) -> None:
        """Returns when `_poll` is true. `lockstep run` has ended before."""
        while not self._poll():
            with self._changed:
                if self._open:
                    self._changed.wait(_LOOK_SECONDS)

    def _finish(self) -> None:
        status = _load(self._path("report.json"))
        self._stop_guard()
        _running.discard(self)
        if status is None:
            status = self._without_report()
        self._ended = status
        shutil.rmtree(self._folder, ignore_errors=True)

    def _without_report(self) -> Status:
        """`lockstep run` did not begin the job, or died."""
        code = self._process.returncode
        words = list(self._own)
        if code == _USAGE:
            errors = [each.partition("error: ")[2] for each in words if "error: " in each]
            self._failure = JobInvalid(errors or words)
        else:
            how = f"exited with {code}" if code >= 0 else f"was killed by {_signal_name(-code)}"
            last = "\n".join(["", *words[-10:]]) if words else ""
            self._failure = LockstepError(f"job {self.name}: `lockstep run` {how}{last}")
        return Status(state="Failed", reason=str(self._failure))

    def _stop_guard(self) -> None:
        assert self._guard.stdin is not None
        try:
            self._guard.stdin.write(b"ended\n")
            self._guard.stdin.close()
        except OSError:
            self._guard.kill()
        self._guard.wait()

    def _wait(self, deadline: Deadline, live: Live) -> Status:
        try:
            while not self._poll():
                self._print_new()
                live.show(self.name, lambda: self.status)
                left = deadline.left(_LOOK_SECONDS)  # in each round: output may never pause
                with self._changed:
                    if self._count == self._shown and self._own_count == self._own_shown:
                        self._changed.wait(left)
        except KeyboardInterrupt:
            self._interrupt()
            raise
        finally:
            self._print_new()
            live.show(self.name, lambda: self.status, last=True)
        return self._result()

    def _result(self) -> Status:
        if self._failure is not None:
            raise self._failure
        assert self._ended is not None
        status = self._verdict(self._ended)
        if status is None:
            raise JobStopped(f"job {self.name} was stopped: {self._ended.reason}")
        return status

    def _interrupt(self) -> None:
        """Ctrl-C: the processes may save, until Ctrl-C comes again."""
        self._signal(signal.SIGINT)
        try:
            while not self._poll():
                self._print_new()
                time.sleep(0.05)
        except KeyboardInterrupt:
            self._kill()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _kill(self) -> None:
        """Asks twice, which kills all processes at once, then kills `lockstep run` itself."""
        for _ in range(2):
            self._signal(signal.SIGTERM)
            time.sleep(0.05)  # two signals at once are one
        try:
            self._process.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._await_output()

    def logs(self, rank: Optional[int] = None, machine: Optional[int] = None,
             follow: bool = False, timeout: Optional[float] = None) -> Iterator[str]:
        """The lines that the processes printed; see Run.logs.

        The newest 100,000 lines of the job are kept, up to 64 Mi characters. Field `logs.path`
        names a folder for all of them. With `logs.format` Raw or Json, `rank` and `machine` raise
        Unsupported.
        """
        return super().logs(rank, machine, follow, timeout)

    def _logs(self, rank: Optional[int], machine: Optional[int], follow: bool,
              deadline: Deadline) -> Iterator[Optional[str]]:
        wanted = self._machine_of(rank, machine)
        form = (self.job.logs.format if self.job.logs else None) or "Prefix"
        if wanted is not None and form != "Prefix":
            raise Unsupported(f"logs.format {form} leaves out which rank wrote a line; use Prefix, "
                              "or logs.path, which has a file for each rank")
        return self._lines_until(deadline, rank, wanted, follow)

    def _lines_until(self, deadline: Deadline, rank: Optional[int], machine: Optional[int],
                     follow: bool) -> Iterator[Optional[str]]:
        seen = 0
        while True:
            over = self._poll()  # before the look at the lines, of which none comes after it
            with self._changed:
                lines, seen = self._since(seen), self._count
            for line in lines:
                if rank is not None and line.rank == rank:
                    yield line.text[line.start:]
                elif rank is None and machine in (None, line.machine):
                    yield line.text
            if over or not follow:
                return
            left = deadline.left(_LOOK_SECONDS)
            with self._changed:
                if self._count == seen:
                    self._changed.wait(left)
            yield None

    def events(self) -> List[Event]:
        """What `lockstep run` has said, the oldest first. The newest 10,000 lines are kept."""
        with self._changed:
            return [Event(text) for text in self._own]

    # ---- what it can be asked for ----

    def suspend(self, timeout: float = 600.0) -> None:
        """Stops the job as Ctrl-C does, and waits for its end. `timeout`: in seconds."""
        if self._poll():
            raise Unsupported(f"job {self.name} has ended")
        deadline = Deadline(timeout, f"the stop of job {self.name}")
        self._signal(signal.SIGTERM)
        while not self._poll():
            time.sleep(deadline.left(0.02))

    def resume(self) -> None:
        """Runs a suspended job again, from its last checkpoint if it has a `checkpoint.path`."""
        if self.state != "Suspended":
            raise Unsupported(f"job {self.name} is {self.state}, and only a suspended job is "
                              "resumed")
        self._begin()

    def restart(self, reason: str = "", at_commit: bool = False) -> None:
        """Starts a new generation; see Run.restart."""
        if self._poll():
            raise Unsupported(f"job {self.name} has ended")
        command = [program.find(), "restart", "--pid", str(self._process.pid), "--reason", reason]
        done = subprocess.run(command + ["--at-commit"] * at_commit, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                              errors="replace", timeout=_KILL_SECONDS, check=False)
        if done.returncode != 0:
            words = done.stderr.strip().partition(_OWN)[2] or done.stderr.strip()
            raise Unsupported(f"job {self.name} is not restarted: {words}")

    def scale(self, machines: int) -> None:
        """Not on this computer: raises Unsupported."""
        raise Unsupported("a run on this computer keeps its number of machines; suspend it, and "
                          f"run the job again with machines={machines}")

    def delete(self, timeout: float = 300.0) -> None:
        """Stops the job with its grace period; after `timeout` seconds its processes are killed."""
        if self._poll():
            return
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except BaseException as error:  # Ctrl-C, too, must leave nothing behind
            self._kill()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        self._await_output()


def _load(file: str) -> Optional[Status]:
    """`lockstep run` writes both files in one step. None before it has."""
    try:
        with open(file, encoding="utf-8") as text:
            found: Dict[str, object] = json.load(text)
    except FileNotFoundError:
        return None
    return Status.from_dict(found)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_running: weakref.WeakSet[LocalRun] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for each in list(_running):
        if each._pid == os.getpid():  # a fork of it leaves the job alone
            each.delete()
