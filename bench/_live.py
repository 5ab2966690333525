"""A PyTorch rank is killed: how long until every rank has made its next step.

`lives-on`: programs/live.py with lockstep_torch.Live, in one job. Again and again a random rank gets
SIGKILL at a random moment, once parked interpreters are ready. It must end with the sums of a job
that was left alone. `parked` and `fresh`: the same program without Live, whose ranks all start anew,
with and without parked interpreters; they take turns, and lose all steps.

From the kill to the last rank's first step in the next generation, each rank's steps on its own
stamps. The parts, each until the last rank that comes to it:

    detect   until the agents are told to stop their ranks, by Lockstep's report; the report lacks the
             time in which the kernel ends the dead process, which is in `spawn` then
    stop     until each rank has left or ended, likewise
    spawn    until the first line of the last new process
    imports  until its imports are done
    join     until the last rank has its process group
    load     until the last new process has the state and its DDP
    step     until the last rank has made a step
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, namedtuple
from pathlib import Path

from _bench import LOCKSTEP, ROOT, emit, now, quantile, spread  # which says where the tests' helpers are

import processes  # isort: skip

PROGRAM = Path(__file__).with_name("programs") / "live.py"
LIMIT = {"p50": 300, "p99": 1000}
PARTS = ("detect", "stop", "spawn", "imports", "join", "load", "step")
PATIENCE = 120  # seconds
AHEAD = 100  # steps until a job ends that is told to

Stamp = namedtuple("Stamp", "event rank generation step ns")
# killed: when; before: the number of the generation that ended.
Kill = namedtuple("Kill", "killed rank before load")


class Job:
    """programs/live.py under a launcher; `command` is given by those that derive from it."""

    def __init__(self, folder, shape, command, last=None, **environment):
        folder.mkdir()
        self.folder, self.shape = folder, shape
        self.stop = folder / "stop"
        if last is not None:
            self.stop.write_text(str(last))
        self.environment = {
            **os.environ, "BENCH_TIMES": folder / "times", "BENCH_STOP": self.stop,
            "OMP_NUM_THREADS": 1, "BENCH_MARK": folder, "PYTHONPATH": ROOT / "worker/python",
            **environment}
        self.environment = {name: str(value) for name, value in self.environment.items()}
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.environment)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def stamps(self):
        file = self.folder / "times"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [Stamp(event, int(rank), int(generation.split("-")[1]), int(step), int(ns))
                for event, rank, generation, step, ns in map(str.split, lines)]

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

    def first(self, event, after):
        """When each rank first did so in a generation later than `after`: {rank: ns}"""
        found = {}
        for stamp in self.stamps():
            if stamp.event == event and stamp.generation > after:
                found.setdefault(stamp.rank, stamp.ns)
        return found

    def all_stepped(self, after):
        return len(self.first("step", after)) == self.shape.world

    def generation(self):
        return max((stamp.generation for stamp in self.stamps()), default=0)

    def ranks(self):
        """{rank: pid} of those that train: only they have the file of stamps open."""
        found = {}
        for pid in processes.with_variable("BENCH_MARK", str(self.folder)):
            seen = processes.environment(pid)
            rank = seen.get("BENCH_RANK", seen.get("RANK"))
            # A parked process has its rank's environment, less what a generation tells it.
            if rank is not None and self._has_stamps(pid):
                found[int(rank)] = pid
        return found

    def _has_stamps(self, pid):
        try:
            return any(os.path.realpath(f"/proc/{pid}/fd/{fd}") == str(self.folder / "times")
                       for fd in os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            return False

    def ready(self):
        """Whether a rank may be killed."""
        return True

    def about_to_kill(self, ranks, rank):
        """For those that look on."""

    def kill(self):
        """Kills a random rank at a random moment, and waits until all have made a step again. None if
        the job ends before."""
        if not self.wait(lambda: self.all_stepped(self.generation() - 1)):
            return None
        if not self.wait(self.ready):
            return None
        ranks, before = self.ranks(), self.generation()
        if len(ranks) != self.shape.world:
            return None
        rank = random.randrange(self.shape.world)
        time.sleep(random.random() * 0.1)
        self.about_to_kill(ranks, rank)
        kill = Kill(now(), rank, before, os.getloadavg()[0])
        os.kill(ranks[rank], signal.SIGKILL)
        return kill if self.wait(lambda: self.all_stepped(before)) else None

    def marks(self, kill):
        """When each part ended, as far as stamps show it, and all of it."""
        marks = {}
        for part, event in (("spawn", "start"), ("imports", "imported"), ("join", "joined"),
                            ("load", "loaded"), ("step", "step")):
            marks[part] = max(self.first(event, kill.before).values())
        return marks

    def finish(self):
        """Ends the job some steps later. (exit code, {rank: sum}, the last step)"""
        last = max(stamp.step for stamp in self.stamps()) + AHEAD
        temporary = self.stop.with_suffix(".new")
        temporary.write_text(str(last))
        temporary.replace(self.stop)
        return self.ended() + (last,)

    def ended(self):
        code = self.process.wait(600)
        return code, dict(re.findall(r"SUM (\d+) (\w+)", self.log()))

    def end(self):
        self.process.terminate()
        self.process.wait(60)

    def made_twice(self):
        """Steps that a rank finished more than once."""
        times = Counter((s.rank, s.step) for s in self.stamps() if s.event == "step")
        return len({step for (_, step), count in times.items() if count > 1})


class Lockstep(Job):
    def __init__(self, folder, python, shape, live, prestart, last=None):
        self.prestart = prestart
        command = [LOCKSTEP, "run", "-v", "--no-table", "--prestart", prestart, "--max-restarts", 1000,
                   "--report", folder / "report.json", "-m", shape.machines, "-p", shape.processes,
                   "--", python, PROGRAM]
        super().__init__(folder, shape, command, last, BENCH_LIVE="lockstep" if live else "")

    def ready(self):
        """Whether each machine has all its parked interpreters. A machine none of whose ranks died
        keeps them, and may say so before the next generation begins."""
        if self.prestart == "Never":
            return True
        last = {}
        for machine, taken, missing in re.findall(
                r"\[m(\d+)\.\d+\]: prestart: .*?(?:(started from)|(\d+) of \3) parked interpreters",
                self.log()):
            last[machine] = bool(missing and not taken)
        return len(last) == self.shape.machines and all(last.values())

    def respawns(self):
        """What Lockstep reports of each restart, once the job has ended."""
        report = json.loads((self.folder / "report.json").read_text())
        return {int(each["id"].split("-")[1]) if isinstance(each.get("id"), str) else number: each["respawn"]
                for number, each in enumerate(report["generations"], 1) if each.get("respawn")}


def in_parts(marks, kill, respawn):
    """ms of each part."""
    detect = (respawn.get("detect") or 0) * 1e9
    stop = (respawn.get("stop") or 0) * 1e9
    ends = {"detect": kill.killed + detect, "stop": kill.killed + detect + stop, **marks}
    parts, before = {}, kill.killed
    for part in PARTS:
        # A new process may import before another one starts: parts never overlap.
        end = max(ends[part], before)
        parts[part] = round((end - before) / 1e6, 1)
        before = end
    return parts


def medians(found):
    return {part: round(quantile([each[part] for each in found], 0.5), 1) for part in PARTS}


def whole(marks, kill):
    return (marks["step"] - kill.killed) / 1e6


def living_on(folder, python, shape, kills, slow):
    job = Lockstep(folder / "killed", python, shape, True, "Always")
    found = []
    while len(found) < kills:
        kill = job.kill()
        if kill is None:
            break
        found.append((kill, job.marks(kill)))
        if len(found) % 10 == 0:
            print(f"{len(found)} of {kills} kills", file=sys.stderr, flush=True)
    ended, sums, last = job.finish() if job.process.poll() is None else (*job.ended(), 0)
    if ended or not found:
        print(job.log()[-6000:], file=sys.stderr)
    alone = Lockstep(folder / "whole", python, shape, True, "Never", last)
    code, expected = alone.ended()
    respawns = job.respawns()
    parts = [in_parts(marks, kill, respawns.get(kill.before, {})) for kill, marks in found]
    times = [whole(marks, kill) for kill, marks in found]
    for (kill, _), ms, part in zip(found, times, parts):
        if ms > slow:
            emit("restart", "torchSlow", mode="lives-on", rank=kill.rank, generation=kill.before,
                 unit="ms", whole=round(ms, 1), **part, loadThen=kill.load)
    kept = re.findall(r"goes on with (\d+) of", job.log())
    emit("restart", "torch", mode="lives-on", shape=str(shape), unit="ms", **spread(times), limit=LIMIT,
         parts=medians(parts), overP99=sum(ms > LIMIT["p99"] for ms in times),
         stepsMadeTwice=job.made_twice(), steps=last, processesKept=min(map(int, kept), default=0),
         recoveries=len(kept),
         sameSums=code == ended == 0 and len(sums) == shape.world and sums == expected,
         load=[min(k.load for k, _ in found), max(k.load for k, _ in found)] if found else None,
         python=str(python))


def anew(folder, python, shape, samples):
    found = {"parked": [], "fresh": []}
    for sample in range(samples):
        for mode, values in found.items():
            job = Lockstep(folder / f"{mode}-{sample}", python, shape, False,
                           "Always" if mode == "parked" else "Never")
            kill = job.kill()
            marks = kill and job.marks(kill)
            job.end()
            if marks:
                values.append((kill, marks, job.respawns().get(kill.before, {})))
    for mode, values in found.items():
        if values:
            emit("restart", "torch", mode=mode, shape=str(shape), unit="ms",
                 **spread([whole(marks, kill) for kill, marks, _ in values]),
                 parts=medians([in_parts(marks, kill, respawn) for kill, marks, respawn in values]))


def torch_rows(python, shape, kills, samples, slow):
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as name:
        folder = Path(name)
        if kills > 0:
            living_on(folder, python, shape, kills, slow)
        anew(folder, python, shape, samples)
