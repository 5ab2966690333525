"""The built-in trainer loses a rank: how long until its next step, and until one not made before.

In turns, of the same run but for how it goes on: `Restart` reads the last checkpoint on disk, `Memory`
the one in memory that is newer (docs/guides/checkpoints.md), `InPlace` keeps the other ranks' processes, and
`InPlaceOnFakes` does so on the fakes of CUDA, cuBLASLt and NCCL, with a model that their heads fit.
Rank 0 writes each step to a pipe, whose lines are stamped here as they come; the last rank is killed
by SIGKILL. All runs end in the same weights, or a line says that they do not.
"""

import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
from collections import namedtuple
from pathlib import Path

import processes
from _bench import BIN, LOCKSTEP, emit, now, spread

DATA = "/usr/share/common-licenses/GPL-3"
TRAINER = ["--data", DATA, "--global-batch-size", "4", "--micro-batch-size", "1",
           "--compare-every", "0", "--tensorboard", "none"]
NANO = ("--model", "nano", "--sequence-length", "32")
# The fakes run a GPU's kernels thread by thread.
TINY = ("--layers", "1", "--heads", "1", "--width", "64", "--vocabulary", "256",
        "--sequence-length", "16", "--device", "cuda")
STEPS, EVERY, DEATH = 60, 25, 45  # 20 steps after a checkpoint
# The fakes of NCCL meet through /proc.
Mode = namedtuple("Mode", "model words checkpoint run env", defaults=(NANO, (), {}, (), {}))
MODES = {"Restart": Mode(),
         "Memory": Mode(words=("--memory-every", "5"), checkpoint={"memory": {"size": "128Mi"}}),
         "InPlace": Mode(words=("--in-place",)),
         "InPlaceOnFakes": Mode(TINY, ("--in-place",), run=("--no-pid-namespace",),
                                env={"LD_LIBRARY_PATH": str(BIN.parent / "fake_nccl")})}
LIMIT = 1000


def job(folder, shape, mode):
    command = [str(BIN / "lockstep-trainer"), "train", *TRAINER, *mode.model, "--steps", str(STEPS),
               "--checkpoint-every", str(EVERY), "--metrics", f"{folder}/steps", *mode.words]
    file = Path(folder, "job.yaml")
    file.write_text(json.dumps({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "gpt"},
        "spec": {"numMachines": shape.machines, "processesPerMachine": shape.processes,
                 "command": command,
                 "env": [{"name": name, "value": value} for name, value in mode.env.items()],
                 "checkpoint": {"path": f"{folder}/checkpoints", **mode.checkpoint}}}),
        encoding="utf-8")
    return file


def kill_last_rank(mark, world):
    """When that was."""
    for pid in processes.with_variable("BENCH_MARK", mark):
        if processes.environment(pid).get("RANK") == str(world - 1):
            at = now()
            os.kill(pid, signal.SIGKILL)
            return at
    raise RuntimeError(f"there is no rank {world - 1}")


class Recovered:
    """One run; `steps`: (step, when) as they were told."""

    def __init__(self, shape, mode):
        with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
            os.mkfifo(f"{folder}/steps")
            # Held open for writing as well, so that it does not end with a rank.
            pipe = os.fdopen(os.open(f"{folder}/steps", os.O_RDWR), encoding="ascii")
            log = Path(folder, "log")
            with log.open("wb") as output:
                command = [LOCKSTEP, "run", "--no-table", "--report", f"{folder}/report.json",
                           *mode.run, job(folder, shape, mode)]
                run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                       env={**os.environ, "BENCH_MARK": folder})
            self.steps, self.killed = [], 0
            while not self.steps or self.steps[-1][0] < STEPS:
                self.steps.append((int(json.loads(pipe.readline())["step"]), now()))
                if self.steps[-1][0] == DEATH and not self.killed:
                    self.killed = kill_last_rank(folder, shape.world)
            pipe.close()
            self.code = run.wait()
            self.log = log.read_text(encoding="utf-8", errors="replace")
            self.generations = json.loads(Path(folder, "report.json").read_text())["generations"]
        sums = re.findall(r"sha256 (\w+)", self.log)
        self.weights = sums[-1] if sums else ""

    def good(self):
        return self.code == 0 and len(self.generations) == 2 and self.weights

    def after(self):
        """How many steps were made twice, and the ms from the death to the first step of the next
        generation, and to the first that was never made before.

        It is behind the one that rank 0 says it goes on from: a pause of the computer's may be longer
        than the recovery.
        """
        begun = int(re.findall(r"(?:continuing after|resuming at) step (\d+)", self.log)[-1]) + 1
        first = max(n for n, (step, _) in enumerate(self.steps) if step == begun)
        furthest = self.steps[first - 1][0]
        redone = furthest - self.steps[first][0] + 1
        new = next(at for step, at in self.steps[first:] if step > furthest)
        return redone, (self.steps[first][1] - self.killed) / 1e6, (new - self.killed) / 1e6

    def step(self):
        """The median ms of a step before the death."""
        told = [at for _, at in self.steps[:DEATH]]
        return statistics.median((b - a) / 1e6 for a, b in zip(told, told[1:]))


def recoveries(samples, shape):
    found, weights, bad = {mode: [] for mode in MODES}, {}, dict.fromkeys(MODES, 0)
    for _ in range(samples):
        for name, mode in MODES.items():
            run = Recovered(shape, mode)
            if not run.good():
                print(f"a run is left out (exit code {run.code}):\n{run.log[-2000:]}", flush=True)
                bad[name] += 1
                continue
            weights.setdefault(mode.model, set()).add(run.weights)
            found[name].append((*run.after(), run.step(), run.generations[1].get("kept", 0)))
    for name, runs in found.items():
        if not runs:
            continue
        redone, following, new, step, kept = zip(*runs)
        emit("restart", "recovery", mode=name, shape=str(shape), unit="ms", **spread(following),
             limit=LIMIT if name.startswith("InPlace") else None, newStep=spread(new), step=spread(step),
             stepsRedone=max(redone), processesKept=min(kept),
             sameWeights=len(weights[MODES[name].model]) == 1, leftOut=bad[name])
