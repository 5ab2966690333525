"""pmi_sum.py FOLDER STEPS: each step is a sum over all ranks, the first leaves a file. A file `abort`
in FOLDER makes rank 3 call MPI_Abort(7), once."""

import pathlib
import sys
import time

from mpi4py import MPI

import lockstep

world = MPI.COMM_WORLD
node = world.Split_type(MPI.COMM_TYPE_SHARED)
folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
abort = folder / "abort"
for step in range(1, steps + 1):
    total = world.allreduce(world.rank + step)
    assert total == sum(range(world.size)) + world.size * step, total
    lockstep.report(step=step, total_steps=steps)
    if step == 1:
        (folder / f"rank-{world.rank}").write_text(
            f"rank {world.rank} of {world.size}, {node.rank} of {node.size} here")
    if world.rank == 3 and abort.exists():
        abort.unlink()
        print("rank 3 has had enough", file=sys.stderr, flush=True)
        world.Abort(7)
    time.sleep(0.01)
