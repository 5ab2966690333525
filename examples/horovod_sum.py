"""A sum over all ranks of Horovod."""

import horovod.torch as hvd
import torch

hvd.init()
total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum)
print(f"rank {hvd.rank()} of {hvd.size()}: the sum of all ranks is {total.item():.0f}")
