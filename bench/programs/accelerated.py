"""Accelerate as users write it, on CPUs."""

import stamps  # isort: skip

import torch
from accelerate import Accelerator

stamps.stamp("imported")
accelerator = Accelerator(cpu=True)
stamps.stamp("joined")
model = torch.nn.Linear(32, 1)
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader([torch.randn(32) for _ in range(65536)], batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    loss = model(batch).pow(2).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    if stamps.done():
        break
accelerator.end_training()
