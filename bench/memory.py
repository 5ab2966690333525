#!/usr/bin/env python3
"""Checkpoints in memory: how long a commit holds training up, and how soon a lost machine is back.

Two machines of one rank each on this computer, with a part of 100 MB each and a commit a step.
`commit` is from the last rank's question to the last one's answer; its floor, from the same run's
computer, is what cannot be done without: two renames on the same file system, and a question to a
process and its answer, twice, one after the other. `lost` is from the death of machine 1's agent,
and all it held, to the last rank's having read its part again.
"""

import argparse
import os
import signal
import socket
import tempfile
import threading
from pathlib import Path

import processes
from _bench import LOCKSTEP, TimedRun, emit, now, spread

PROGRAM = Path(__file__).with_name("_memory.py")
SPEC = """
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {{name: memory}}
spec:
  numMachines: 2
  processesPerMachine: 1
  command: [python3, {program}]
  checkpoint: {{memory: {{size: 2Gi}}}}
"""


def floor_ms(samples):
    """Two renames and two round trips over a Unix socket, of this Python."""
    mine, theirs = socket.socketpair()
    if os.fork() == 0:
        mine.close()
        while theirs.recv(64):
            theirs.send(b"yes")
        os._exit(0)
    theirs.close()
    found = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        names = [os.path.join(folder, name) for name in "abc"]
        os.mkdir(names[0])
        for _ in range(samples):
            began = now()
            for step in (0, 1):
                mine.send(b"may I?")
                mine.recv(64)
                os.rename(names[step], names[step + 1])
            found.append((now() - began) / 1e6)
            os.rename(names[2], names[0])
    mine.close()
    os.wait()
    return spread(found)


def numbered(run, event, restarted):
    """Number -> the times at which ranks stamped "EVENT:NUMBER"."""
    found = {}
    for each in run.stamps:
        name, _, number = each.event.partition(":")
        if name == event and number and each.restarted == restarted:
            found.setdefault(int(number), []).append(each.ns)
    return found


def kill_machine(pipe, times):
    """Once rank 1 has opened the pipe: its agent dies; the moment goes to `times`."""
    with open(pipe, encoding="ascii"):
        pass
    for pid in processes.with_variable("BENCH_DEATH", pipe):
        if processes.environment(pid).get("RANK") == "1":
            times.append(now())
            os.kill(processes.parent(pid), signal.SIGKILL)
            return


def job(size, steps, lose, interval, timeout):
    """The run, and when machine 1 was killed in it."""
    deaths = []
    with tempfile.TemporaryDirectory() as folder:
        spec, pipe = Path(folder) / "job.yaml", os.path.join(folder, "death")
        os.mkfifo(pipe)
        spec.write_text(SPEC.format(program=PROGRAM))
        threading.Thread(target=kill_machine, args=(pipe, deaths), daemon=True).start()
        env = {"BENCH_SIZE": size << 20, "BENCH_STEPS": steps, "BENCH_LOSE": lose,
               "BENCH_INTERVAL": interval, "BENCH_DEATH": pipe}
        run = TimedRun(lambda report: [LOCKSTEP, "run", "--no-table", "--report", report, spec],
                  timeout=timeout, env={name: str(value) for name, value in env.items()})
    return run, deaths


def commits(size, steps, interval):
    run, _ = job(size, steps, 0, interval, 300)
    asked, granted = numbered(run, "asked", 0), numbered(run, "granted", 0)
    held_up = [(max(granted[step]) - max(asked[step])) / 1e6 for step in granted
               if len(granted[step]) == len(asked[step]) == 2]
    if run.code != 0 or not held_up:
        return run.complain("no commit was granted")
    emit("memory", "commit", machines=2, mbEach=size, unit="ms", **spread(held_up), limit=50,
         floor=floor_ms(1000)["p50"], interval=interval)


def losses(size, samples, interval):
    restored, lost, bad = [], [], 0
    for _ in range(samples):
        lose = 6
        run, death = job(size, lose + 2, lose, interval, 120)
        again = run.times("restored", 1)
        if run.code != 0 or len(death) != 1 or len(again) != 2:
            run.complain("a run that went otherwise is left out")
            bad += 1
            continue
        restored.append((max(again) - death[0]) / 1e6)
        lost.append(lose - min(numbered(run, "from", 1)))
    if restored:
        emit("memory", "lost", machines=2, mbEach=size, unit="ms", **spread(restored), limit=1000,
             stepsLost=lost, interval=interval, leftOut=bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100, metavar="MB", help="of each part (100)")
    parser.add_argument("--steps", type=int, default=30, help="that are committed (30)")
    parser.add_argument("--samples", type=int, default=5, help="machines that are lost (5)")
    parser.add_argument("--interval", type=float, default=1.5, metavar="SECONDS",
                        help="of a step (1.5)")
    options = parser.parse_args()
    commits(options.size, options.steps, options.interval)
    losses(options.size, options.samples, options.interval)


if __name__ == "__main__":
    main()
