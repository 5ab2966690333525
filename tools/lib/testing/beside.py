"""Runs work beside other work, on the processor time that the other leaves."""

import multiprocessing
import os
import pathlib
import signal
import sys

# As `nice`: the other work gets three quarters of a core that both want. At idle priority, this work
# would get next to nothing of busy cores, and tests have time limits.
NICE = 5


class Beside:
    """Calls `work` in a process of its own from `with` on. result() waits for what it returns.

    What it prints on standard output, and what its own processes print, is written to `log` and printed
    by result(). Its messages on sys.stderr appear at once. If the `with` block is left early, it and all
    that it started end.
    """

    def __init__(self, work, log):
        self._work = work
        self._log = pathlib.Path(log)

    def __enter__(self):
        fork = multiprocessing.get_context("fork")
        self._answers, answer = fork.Pipe(duplex=False)
        self._process = fork.Process(target=self._run, args=(answer,))
        sys.stdout.flush()
        self._process.start()
        answer.close()
        self._answers.recv()  # from now on the process has a group, which __exit__ can end
        return self

    def __exit__(self, *_):
        if self._process.is_alive():
            os.killpg(self._process.pid, signal.SIGTERM)
        self._process.join()
        self._answers.close()

    def result(self):
        """What `work` returned. Raises RuntimeError if it raised or was killed."""
        try:
            answer = self._answers.recv()
        except EOFError:
            answer = None
        self._process.join()
        sys.stdout.write(self._log.read_text(errors="replace") if self._log.exists() else "")
        sys.stdout.flush()
        if answer is None:
            raise RuntimeError(f"the suites beside ended with {self._process.exitcode}")
        return answer

    def _run(self, answer):
        os.setsid()  # with a session, a scheduling group of its own
        answer.send("started")
        os.nice(NICE)
        try:
            pathlib.Path("/proc/self/autogroup").write_text(f"{NICE}\n")
        except OSError:
            pass  # containers can lack the group; then nice works across sessions
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
        with self._log.open("wb") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        answer.send(self._work())
