"""A model that torch.compile makes C++ of, on CPUs."""

import stamps  # isort: skip

import torch

stamps.stamp("imported")
stamps.stamp("joined")
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
model = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters())
while True:
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if stamps.done():
        break
