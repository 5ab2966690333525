"""A rank that keeps a checkpoint in memory at every step, for memory.py.

It stamps what it asks for and gets; at step BENCH_LOSE rank 1 opens the pipe
BENCH_DEATH and waits for its machine to be lost.
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../worker/python"))
import lockstep

RANK, RESTARTS = int(os.environ["RANK"]), lockstep.restarts()
SIZE, STEPS, LOSE = (int(os.environ["BENCH_" + name]) for name in ("SIZE", "STEPS", "LOSE"))
INTERVAL = float(os.environ["BENCH_INTERVAL"])
PIECE = os.urandom(1 << 20)


def stamp(event: str) -> None:
    with open(os.environ["BENCH_TIMES"], "a", encoding="ascii") as times:
        at = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        times.write(f"{event} {RANK} {min(RESTARTS, 1)} {at}\n")


def write(folder: str) -> None:
    os.makedirs(folder)
    with open(os.path.join(folder, f"rank-{RANK}"), "wb", buffering=0) as file:
        for _ in range(SIZE >> 20):
            file.write(PIECE)


came_from, first = lockstep.latest(), 0
if came_from:
    first = int(str(came_from).rpartition("step-")[2])
    with open(os.path.join(str(came_from), f"rank-{RANK}"), "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
stamp("restored")
stamp(f"from:{first}")
memory = lockstep.memory_dir()
assert memory is not None
for step in range(first + 1, STEPS + 1):
    began = time.monotonic()
    lockstep.report(step=step, total_steps=STEPS)
    folder = os.path.join(memory, f"step-{step}")
    write(folder)
    stamp(f"asked:{step}")
    lockstep.commit(folder)
    stamp(f"granted:{step}")
    time.sleep(max(0.0, began + INTERVAL - time.monotonic()))
    if step == LOSE and RESTARTS == 0 and RANK == 1:
        with open(os.environ["BENCH_DEATH"], "w", encoding="ascii"):
            time.sleep(60)  # within an agent's own PIDs nobody can kill it
