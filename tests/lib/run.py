"""`lockstep run` as a process: what it starts, and what it reports.

    run = Run(tmp_path, "-m", "2", "--", "train.py")
    os.kill(run.wait_ranks(2)[1][0], signal.SIGKILL)
    code, report, output = run.finish()
"""

import json
import os
import re
import signal
import subprocess
import sys

import processes
from paths import ROOT
from tls import binary
from waiting import wait_until

MARK = "RUN_UNDER_TEST"

# What waits has the environment of its rank, by which ranks are found here.
NO_SPARES = ["--prestart", "Never"]

# A program that says when SIGTERM came; it has no child that could be taken for it.
TELLS = [sys.executable, "-c", """\
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", os.environ["RANK"], os.environ["LOCKSTEP_GENERATION"], flush=True)
signal.sigwait([signal.SIGTERM])
print("told", os.environ["RANK"], flush=True)"""]


def listening(text, generation="1-1"):
    """How many of TELLS in this generation have said in `text` that they wait for SIGTERM."""
    return len(re.findall(rf"ready \d+ {generation}\b", text))


def ranks(mark):
    """Rank -> (pid, generation). What a rank starts has its environment, too, and is left out."""
    environments = {pid: processes.environment(pid) for pid in processes.with_variable(MARK, mark)}
    of_ranks = {pid: each for pid, each in environments.items() if "RANK" in each}
    return {int(each["RANK"]): (pid, each.get("LOCKSTEP_GENERATION"))
            for pid, each in of_ranks.items() if processes.parent(pid) not in of_ranks}


def pid_of(mark, rank):
    """Of a rank that runs. One look through /proc can miss a process."""
    return wait_until(lambda: ranks(mark).get(rank), f"rank {rank}")[0]


# Signals that ask a run to stop.
STOPS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU]

_started = []


def end_runs():
    """Kills what a test that failed has left, which would be in the way of those that follow."""
    while _started:
        process = getattr(_started.pop(), "process", None)
        if process and process.poll() is None:
            process.kill()
            process.wait()


def begin_with(ignored):
    """What a shell that runs the tests in its background ignores is not the run's to ignore."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)


class Run:
    """One `lockstep run`, its report, and a mark in the environment of all that it starts. A shared one
    serves several tests; the caller that started it must end it."""

    def __init__(self, folder, *arguments, variables=None, ignores=(), shared=False):
        if not shared:
            _started.append(self)
        self.mark, self.folder = str(folder), folder
        self.report_file = folder / "report.json"
        environment = {**os.environ, MARK: self.mark, "PYTHONPATH": str(ROOT / "worker/python"),
                       "PYTHONDONTWRITEBYTECODE": "1", **(variables or {})}
        self.process = subprocess.Popen(
            [binary("lockstep"), "run", "--report", str(self.report_file), *NO_SPARES, *arguments],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, preexec_fn=lambda: begin_with(ignores))

    def wait_ranks(self, count, but_not_in=None):
        def up():
            found = ranks(self.mark)
            fits = len(found) == count and all(g != but_not_in for _, g in found.values())
            stay = fits and all(processes.environment(pid).get("RANK") == str(rank)
                                for rank, (pid, _) in found.items())
            return found if stay else None

        def why():
            self.process.kill()
            return f"{count} ranks, not {ranks(self.mark)}\n{self.process.communicate()[0]}"

        return wait_until(up, why, patience=60)

    def finish(self, patience=120):
        """(exit code, report); nothing is left."""
        output, _ = self.process.communicate(timeout=patience)
        assert self.report_file.exists(), output
        wait_until(lambda: not processes.with_variable(MARK, self.mark), "all it started to end")
        return self.process.returncode, json.loads(self.report_file.read_text()), output
