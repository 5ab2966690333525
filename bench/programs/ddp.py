"""A DistributedDataParallel script as users write it, on CPUs."""

import stamps  # isort: skip

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

stamps.stamp("imported")
torch.manual_seed(1)
dist.init_process_group("gloo")
stamps.stamp("joined")

model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if stamps.done():
        break
dist.destroy_process_group()
