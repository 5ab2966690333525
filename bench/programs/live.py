"""A DistributedDataParallel program with BatchNorm, dropout and several buckets, as _live.py times it.

BENCH_STEPS   it trains so many, and prints a sum of all that it has then
BENCH_LIVE    not empty: with lockstep_torch.Live; else it starts anew after a death
BENCH_STOP    a file: once it is there, there is no pause between steps

After each step a rank appends "RANK GENERATION STEP NS" to the file BENCH_TIMES.
"""

import hashlib
import os
import time

import torch
import torch.distributed as dist
from lockstep_torch import Live
from torch.nn.parallel import DistributedDataParallel

import lockstep

TIMES = os.open(os.environ["BENCH_TIMES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
RANK, STEPS, WIDTH = int(os.environ["RANK"]), int(os.environ["BENCH_STEPS"]), 128
LIVE = bool(os.environ.get("BENCH_LIVE"))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.BatchNorm1d(WIDTH),
                                          torch.nn.Tanh(), torch.nn.Dropout(0.1))

    def forward(self, x):
        return x + self.layers(x)


def train_step(ddp, inputs, targets):
    loss = torch.nn.functional.mse_loss(ddp(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()


def done(step):
    ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    os.write(TIMES, f"{RANK} {os.environ['LOCKSTEP_GENERATION']} {step} {ns}\n".encode())
    if not os.path.exists(os.environ["BENCH_STOP"]):
        time.sleep(0.1)


torch.set_num_threads(1)
torch.manual_seed(RANK)
module = torch.nn.Sequential(torch.nn.Linear(16, WIDTH), *[Block() for _ in range(4)],
                             torch.nn.Linear(WIDTH, 1))
optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
inputs = torch.randn(64 * 40, 16)
data = torch.utils.data.TensorDataset(inputs, inputs.sin().sum(dim=1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)

if LIVE:
    live = Live(module, optimizer, scheduler, bucket_cap_mb=0.1,
                rehearse=lambda ddp: ddp(torch.ones(4, 16)).sum().backward())
    for epoch in live.epochs(STEPS):
        for batch in live.batches(loader):
            if live.step == STEPS:
                break
            with live:
                train_step(live.ddp, *batch)
            done(live.step)
        if live.step == STEPS:
            break
    live.close()
else:
    dist.init_process_group("gloo")
    ddp = DistributedDataParallel(module, bucket_cap_mb=0.1)
    step = 0
    while step < STEPS:
        for batch in loader:
            if step == STEPS:
                break
            train_step(ddp, *batch)
            step += 1
            lockstep.report(step=step)
            done(step)
    dist.destroy_process_group()

total = hashlib.sha256()
for _, value in sorted(module.state_dict().items()):
    total.update(value.numpy().tobytes())
for parameter in module.parameters():
    total.update(optimizer.state[parameter]["exp_avg_sq"].numpy().tobytes())
total.update(torch.get_rng_state().numpy().tobytes())
print(f"SUM {RANK} {total.hexdigest()}", flush=True)
