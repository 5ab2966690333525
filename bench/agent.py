#!/usr/bin/env python3
"""What the agent itself costs: its file, its memory with eight processes, its wake-ups when idle.

Wake-ups are the voluntary context switches of all threads of the agent and its guard, over a time
in which the ranks do nothing. One heartbeat in L/20 (750 ms) is all that has to happen.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _bench import AGENT, RANK, Shape, emit, lockstep

INTERVAL = 15 / 20  # s, of heartbeats with machineLostAfter's default
LIMIT_FILE_MB, LIMIT_MEMORY_MB = 10, 12


def fields(path):
    lines = path.read_text().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def agents(root):
    """The agent's process and its guard's, in this order, below process `root`."""
    parents, found = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(fields(folder / "status")["PPid"])
            if (folder / "exe").samefile(AGENT):
                found.append(int(folder.name))
        except OSError:  # it ended, or is no process of a file
            continue

    def below(pid):
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return sorted(pid for pid in found if below(pid))


def wake_ups(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/status")
    return sum(int(fields(task)["voluntary_ctxt_switches"]) for task in tasks)


def memory_mb(pid):
    rollup = fields(Path(f"/proc/{pid}/smaps_rollup"))
    return {name: round(int(rollup[name].split()[0]) / 1024, 2) for name in ("Rss", "Pss")}


def ranks(times):
    return len(times.read_text().splitlines()) if times.exists() else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    seconds = parser.parse_args().seconds
    size = AGENT.stat().st_size / 2**20
    emit("agent", "file", unit="MB", value=round(size, 2), limit=LIMIT_FILE_MB)

    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        times = Path(folder) / "times"
        shape = Shape(1, 8)
        program = [RANK, "none", 0, 0, (seconds + 30) * 1000]
        command = lockstep(shape, program)(Path(folder) / "report")
        job = subprocess.Popen(
            [str(word) for word in command],
            env={"PATH": "/usr/bin:/bin", "BENCH_TIMES": str(times)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + 10
            while ranks(times) < shape.world:
                if time.monotonic() > deadline or job.poll() is not None:
                    sys.exit("the job did not start")
                time.sleep(0.05)
            time.sleep(2)  # what follows a start is over
            pids = agents(job.pid)
            before, began = {pid: wake_ups(pid) for pid in pids}, time.monotonic()
            time.sleep(seconds)
            woken = {pid: wake_ups(pid) - before[pid] for pid in pids}
            lasted = time.monotonic() - began
            memory = [memory_mb(pid) for pid in pids]
        finally:
            job.kill()
            job.wait()
    emit(
        "agent",
        "memory",
        unit="MB",
        processes=shape.world,
        value=round(sum(m["Pss"] for m in memory), 2),
        limit=LIMIT_MEMORY_MB,
        rss=[m["Rss"] for m in memory],
        pss=[m["Pss"] for m in memory],
        of=["agent", "guard"][: len(pids)],
    )
    expected = lasted / INTERVAL
    emit(
        "agent",
        "idleWakeUps",
        unit="1/s",
        value=round(sum(woken.values()) / lasted, 2),
        heartbeats=round(expected / lasted, 2),
        ratioToHeartbeats=round(sum(woken.values()) / expected, 2),
        counts=list(woken.values()),
        seconds=round(lasted, 1),
    )


if __name__ == "__main__":
    main()
