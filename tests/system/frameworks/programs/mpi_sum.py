"""mpi_sum.py FOLDER: sums over all ranks until there is FOLDER/go; the first leaves a file."""

import os
import pathlib
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
folder = pathlib.Path(sys.argv[1])
step = 0
while True:
    step += 1
    assert world.allreduce(rank + step) == sum(range(size)) + size * step
    if step == 1:
        own = folder / f"{os.environ['LOCKSTEP_GENERATION']}.{rank}"
        # Each machine of `lockstep run` has a PID namespace of its own.
        own.write_text(f"rank {rank} of {size} in {os.readlink('/proc/self/ns/pid')}")
    if world.bcast((folder / "go").exists() if rank == 0 else None):
        break
print(f"rank {rank} of {size} done", flush=True)
