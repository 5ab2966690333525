"""jax_sum.py FOLDER STEPS: each step is a sum over all processes, the first leaves a file. With
FAIL=RANK that one exits with 3 after ten steps, and the others outlive SIGTERM until they notice.
"""

import os
import pathlib
import signal
import sys

import jax
import numpy
from jax.experimental import multihost_utils

import lockstep

failing = os.environ.get("FAIL")
jax.distributed.initialize()
signal.signal(signal.SIGTERM, signal.SIG_DFL if failing is None else signal.SIG_IGN)
rank, world = jax.process_index(), jax.process_count()
folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
for step in range(1, steps + 1):
    everyone = multihost_utils.process_allgather(numpy.array([rank + step]))
    assert everyone.sum() == sum(range(world)) + world * step, everyone
    lockstep.report(step=step, total_steps=steps)
    if step == 1:
        devices = f"{jax.local_device_count()} of {jax.device_count()} devices"
        (folder / f"rank-{rank}").write_text(f"process {rank} of {world}, {devices}")
    if step == 10 and failing == str(rank) and lockstep.restarts() == 0:
        os._exit(3)
