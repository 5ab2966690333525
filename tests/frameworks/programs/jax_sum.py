"""jax_sum.py FOLDER STEPS: each step is a sum over all processes, the first leaves a file."""

import pathlib
import sys

import jax
import numpy
from jax.experimental import multihost_utils

import lockstep

jax.distributed.initialize()
rank, world = jax.process_index(), jax.process_count()
folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
for step in range(1, steps + 1):
    everyone = multihost_utils.process_allgather(numpy.array([rank + step]))
    assert everyone.sum() == sum(range(world)) + world * step, everyone
    lockstep.report(step=step, total_steps=steps)
    if step == 1:
        devices = f"{jax.local_device_count()} of {jax.device_count()} devices"
        (folder / f"rank-{rank}").write_text(f"process {rank} of {world}, {devices}")
