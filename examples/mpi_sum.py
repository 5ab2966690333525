"""Sums a value over all ranks of an MPI program."""

from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
print(f"rank {world.rank} of {world.size}: the sum of all ranks is {total}")
