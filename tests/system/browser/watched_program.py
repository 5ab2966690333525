"""A rank to watch: steps of 40 ms until a file exists, and the last rank keeps the others waiting."""

import os
import sys
import time

import lockstep

SECONDS, WAIT = 0.04, 0.015  # of a step, and of that for others
END = sys.argv[1]
HOSTILE = sys.argv[2]

rank, slow = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1
print(HOSTILE, flush=True)
print(f"rank {rank} is ready", file=sys.stderr, flush=True)
for step in range(1, 100000):
    if os.path.exists(END):
        break
    time.sleep(SECONDS)
    lockstep.report(step=step, total_steps=10000, loss=1 + 8 / (1 + step / 50), tokens=400,
                    collective_wait_seconds=0 if rank == slow else WAIT)
    if step % 50 == 0:
        print(f"at step {step}", flush=True)
