#!/usr/bin/env python3
"""`lockstep run --sync`: from the write of an edited file to the first step of the new code on rank 0.

Ranks train a small model under torch's DistributedDataParallel over Gloo, with warm interpreters
unless --prestart says otherwise. The floor is `lockstep restart` in the same run: the same restart
without an edit. Each measurement begins once all interpreters wait again.

Parts of an edit: figure `part` has the p50 and p95 of each, and its time in the slowest edit.

    watch    the edit until STOP is sent: inotify, the pause of changes, the scan
    stop     until every rank is dead
    apply    until the next generation is announced: the new code is put into place
    start    until rank 0's program begins
    import   rank 0's imports
    meet     init_process_group: the other ranks come
    step     DistributedDataParallel, and the first step

"""

import argparse
import itertools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from _bench import LOCKSTEP, ROOT, Shape, emit, now, quantile, spread

TRAIN = """\
import time

stamps = [time.clock_gettime_ns(time.CLOCK_BOOTTIME)]


def stamp():
    stamps.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))


import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import lockstep
import model as mine

stamp()
torch.set_num_threads(1)
dist.init_process_group("gloo")
stamp()
net = DistributedDataParallel(mine.build())
stamp()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(1, 1_000_000):
    x = torch.randn(64, 64)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 1:
        stamp()
        words = [dist.get_rank(), mine.VERSION, lockstep.generation(), *stamps]
        print("FIRST", *words, flush=True)
    lockstep.report(step=step, loss=loss.item())
    time.sleep(0.02)
"""
MODEL = """\
import torch

VERSION = {version}


def build():
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
"""
PARTS = ("watch", "stop", "apply", "start", "import", "meet", "step")
PATIENCE = 120


class SyncedRun:
    def __init__(self, folder, shape, prestart, python):
        self.code, self._status = folder / "code", folder / "status.json"
        self._name = f"sync-{os.getpid()}"
        self._world = shape.world if prestart != "Never" else 0
        self._generation = ""  # of the last first step
        self._report = folder / "report.json"
        self.stamps = {}  # of each generation's rank 0, as TRAIN takes them
        self.code.mkdir()
        subprocess.run(["git", "init", "-q", str(self.code)], check=True)
        (self.code / "train.py").write_text(TRAIN)
        self.edit(1)
        self._lines = queue.Queue()
        self._log = (folder / "log").open("w+")
        self._began = now()
        self.process = subprocess.Popen(
            [str(word) for word in (
                LOCKSTEP, "run", "-m", shape.machines, "-p", shape.processes, "--name", self._name,
                "--prestart", prestart, "--no-hints", f"--sync={self.code}", "--status",
                self._status, "--report", self._report, "--", python, "-u", "train.py")],
            env={**os.environ, "PYTHONPATH": str(ROOT / "worker/python")},
            stdout=subprocess.PIPE, stderr=self._log, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            found = re.search(r"FIRST 0 (\d+) (\S+) (.+)", line)
            if found:
                stamps = [int(stamp) for stamp in found[3].split()]
                self._lines.put((int(found[1]), found[2], stamps))

    def edit(self, version):
        (self.code / "model.py").write_text(MODEL.format(version=version))

    def restart(self):
        subprocess.run([LOCKSTEP, "restart", self._name], check=True, stdout=subprocess.DEVNULL)

    def first_step(self, version):
        """When rank 0 did its first step in the next generation."""
        ran, self._generation, stamps = self._lines.get(timeout=PATIENCE)
        if ran != version:
            sys.exit(f"version {ran} ran, not {version}")
        self.stamps[self._generation] = stamps
        return stamps[-1]

    def prestart(self):
        try:
            return json.loads(self._status.read_text()).get("prestart", {})
        except (OSError, ValueError):
            return {}

    def await_parked(self):
        """The file may be half a second old. A status from before this generation would still count
        the interpreters that became its ranks, and the next restart would be cold."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            prestart = self.prestart()
            fresh = not self._world or prestart.get("counted") == self._generation
            if fresh and prestart.get("ready", 0) >= self._world:
                return time.sleep(1)
            time.sleep(0.1)
        sys.exit("the interpreters were not ready in time")

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        self._log.close()

    def parts(self, edited):
        """Of the edit at each of these times, in ms; after the end."""
        generations = json.loads(self._report.read_text())["generations"]
        rows = []
        for before, after in itertools.pairwise(generations):
            marks = [self._began + seconds * 1e9 for seconds in
                     (before["stopSent"], before["allStopped"], after["announced"])]
            began = max((at for at in edited if at < marks[0]), default=None)
            stamps = self.stamps.get(after["generation"])
            if began is None or not stamps or before.get("stopReason") is None:
                continue
            edited = [at for at in edited if at > began]
            marks = [began, *marks, *stamps[:3], stamps[-1]]
            rows.append([(later - earlier) / 1e6 for earlier, later in itertools.pairwise(marks)])
        return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=Shape.parse, default=Shape(2, 2))
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--prestart", default="Always")
    parser.add_argument("--python", default="/usr/bin/python3", help="has torch")
    arguments = parser.parse_args()
    edits, restarts, edited = [], [], []
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        run = SyncedRun(Path(folder), arguments.shape, arguments.prestart, arguments.python)
        try:
            run.first_step(1)
            for version in range(2, arguments.samples + 2):
                run.await_parked()
                began = now()
                edited.append(began)
                run.edit(version)
                edits.append((run.first_step(version) - began) / 1e6)
                if version % 5 == 0:
                    run.await_parked()
                    began = now()
                    run.restart()
                    restarts.append((run.first_step(version) - began) / 1e6)
            cold = run.prestart().get("cold", 0)
        finally:
            run.end()
        rows = run.parts(edited)
    for part, values in zip(PARTS, zip(*rows)):
        emit("sync", "part", part=part, shape=str(arguments.shape), unit="ms",
             p50=round(quantile(values, 0.5)), p95=round(quantile(values, 0.95)),
             ofSlowest=round(max(rows, key=sum)[PARTS.index(part)]))
    bare = spread(restarts)
    emit("sync", "restart", shape=str(arguments.shape), prestart=arguments.prestart, unit="ms", **bare)
    ours = spread(edits)
    emit("sync", "edit", shape=str(arguments.shape), prestart=arguments.prestart, unit="ms", **ours,
         p95=round(quantile(edits, 0.95), 3), coldGenerations=cold,
         ratioToFloor=round(ours["p50"] / bare["p50"], 2))


if __name__ == "__main__":
    main()
