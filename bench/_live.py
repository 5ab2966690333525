"""A PyTorch rank is killed: how long until every rank has made its next step.

`lives-on`: programs/live.py with lockstep_torch.Live, in one job. Again and again a random rank gets
SIGKILL at a random moment, once parked interpreters are ready. It must end with the sums of a job
that was left alone. `parked` and `fresh`: the same program without Live, whose ranks all start anew,
with and without parked interpreters; they take turns, and lose all steps.

From the kill to the last rank's first step in the next generation, each rank's steps on its own
stamps.
"""

import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter, namedtuple
from pathlib import Path

from _bench import LOCKSTEP, ROOT, emit, now, spread  # which says where the tests' helpers are

import processes  # isort: skip

PROGRAM = Path(__file__).with_name("programs") / "live.py"
LIMIT = {"p50": 300, "p99": 1000}
STEPS_A_KILL = 40  # while interpreters are parked
PATIENCE = 120  # seconds

Step = namedtuple("Step", "rank generation step ns")


class Job:
    def __init__(self, folder, python, shape, steps, live, prestart, pause=True):
        folder.mkdir()
        self.folder, self.shape = folder, shape
        self.stop = folder / "stop"
        if not pause:
            self.stop.touch()
        environment = {"BENCH_TIMES": folder / "times", "BENCH_STEPS": steps, "BENCH_STOP": self.stop,
                       "BENCH_LIVE": "1" if live else "", "OMP_NUM_THREADS": 1}
        command = [LOCKSTEP, "run", "-v", "--no-table", "--prestart", prestart, "--max-restarts", 1000,
                   "-m", shape.machines, "-p", shape.processes, "--", python, PROGRAM]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **{k: str(v) for k, v in environment.items()},
                     "BENCH_MARK": str(folder), "PYTHONPATH": str(ROOT / "worker/python")})

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def steps(self):
        file = self.folder / "times"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [Step(int(rank), generation, int(step), int(ns))
                for rank, generation, step, ns in map(str.split, lines)]

    def wait(self, holds):
        """What holds() gives; None if the job ends before."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if found := holds():
                return found
            if self.process.poll() is not None:
                return None
            time.sleep(0.02)
        raise TimeoutError(self.log()[-4000:])

    def first_steps(self, after):
        """When each rank has made its first step in a generation later than `after`, else None."""
        found = {}
        for step in self.steps():
            if number(step.generation) > after:
                found.setdefault(step.rank, step.ns)
        return found if len(found) == self.shape.world else None

    def parked_ready(self):
        text = self.log()
        text = text[text.rfind("goes on with") + 1:]
        return all(re.search(rf"\[m{machine}\.\d+\]: prestart: (\d+) of \1 parked interpreters are ready", text)
                   for machine in range(self.shape.machines))

    def generation(self):
        return max((number(step.generation) for step in self.steps()), default=0)

    def kill(self, rank):
        """When that was; None: there is no such process now."""
        for pid in processes.with_variable("BENCH_MARK", str(self.folder)):
            seen = processes.environment(pid)
            # What is parked has its rank's environment, less what a generation tells it.
            if seen.get("RANK") == str(rank) and self.is_rank(pid):
                at = now()
                os.kill(pid, signal.SIGKILL)
                return at
        return None

    def is_rank(self, pid):
        """Only ranks have the file of stamps open."""
        try:
            return any(os.path.realpath(f"/proc/{pid}/fd/{fd}") == str(self.folder / "times")
                       for fd in os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            return False

    def finish(self):
        """(exit code, {rank: sum})"""
        self.stop.touch()
        code = self.process.wait(600)
        return code, dict(re.findall(r"SUM (\d+) (\w+)", self.log()))

    def end(self):
        self.process.terminate()
        self.process.wait(60)


def number(generation):
    return int(generation.split("-")[1])


def recover(job, wait_for_parked):
    """Kills a rank, and gives the ms until all have made a step; None if the job has ended."""
    before = job.generation()
    if not job.wait(lambda: job.first_steps(before - 1)):
        return None
    if wait_for_parked and not job.wait(job.parked_ready):
        return None
    time.sleep(random.random() * 0.1)
    killed = job.kill(random.randrange(job.shape.world))
    steps = killed and job.wait(lambda: job.first_steps(before))
    return (max(steps.values()) - killed) / 1e6 if steps else None


def living_on(folder, python, shape, kills):
    steps = kills * STEPS_A_KILL
    whole = Job(folder / "whole", python, shape, steps, True, "Never", pause=False)
    code, expected = whole.finish()
    job = Job(folder / "killed", python, shape, steps, True, "Always")
    found = []
    while len(found) < kills:
        took = recover(job, True)
        if took is None:
            break
        found.append(took)
    ended, sums = job.finish()
    times = Counter((step.rank, step.step) for step in job.steps())
    kept = re.findall(r"goes on with (\d+) of", job.log())
    emit("restart", "torch", mode="lives-on", shape=str(shape), unit="ms", **spread(found), limit=LIMIT,
         stepsMadeTwice=sum(count > 1 for count in times.values()), steps=steps,
         processesKept=min(map(int, kept), default=0), recoveries=len(kept),
         sameSums=code == ended == 0 and len(sums) == shape.world and sums == expected,
         python=str(python))


def anew(folder, python, shape, samples):
    found = {"parked": [], "fresh": []}
    for sample in range(samples):
        for mode, values in found.items():
            job = Job(folder / f"{mode}-{sample}", python, shape, 10**6, False,
                      "Always" if mode == "parked" else "Never")
            took = recover(job, mode == "parked")
            job.end()
            if took is not None:
                values.append(took)
    for mode, values in found.items():
        if values:
            emit("restart", "torch", mode=mode, shape=str(shape), unit="ms", **spread(values))


def torch_rows(python, shape, kills, samples):
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as name:
        folder = Path(name)
        living_on(folder, python, shape, kills)
        anew(folder, python, shape, samples)
