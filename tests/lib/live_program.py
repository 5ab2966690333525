"""A program of lockstep_torch.Live for the tests: BatchNorm, dropout, several buckets, AdamW, a schedule,
and data with random noise in a random order. All that a death could change is in the sum at its end.

PLAN is {"RANK@STEP": PHASE}: this rank ends in that phase of that step, once.
"""

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time

import lockstep
import torch
from lockstep_torch import Live, save

STEPS = int(os.environ.get("STEPS", "16"))
WORKERS = int(os.environ.get("WORKERS", "0"))
ACCUMULATE = int(os.environ.get("ACCUMULATE", "1"))
CHECKPOINT = int(os.environ.get("CHECKPOINT", "0"))
USES = os.environ.get("USES", "").split()  # rehearsal, bf16, scaler
PLAN = json.loads(os.environ.get("PLAN", "{}"))
FOLDER = os.environ.get("FOLDER", ".")
RANK = int(os.environ.get("RANK", "0"))
WIDTH = 96


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.norm = torch.nn.BatchNorm1d(WIDTH)
        self.drop = torch.nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(torch.tanh(self.norm(self.linear(x))))


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 16 * 7

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(1000 * RANK + index)
        inputs = torch.randn(8, generator=generator) + 0.01 * torch.randn(8)
        return inputs, inputs.sin().sum(dim=0, keepdim=True)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def phase_of(step):
    phase = PLAN.get(f"{RANK}@{step}")
    if phase is None:
        return None
    try:
        os.close(os.open(f"{FOLDER}/done-{RANK}-{step}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return None
    return phase


torch.set_num_threads(1)
torch.manual_seed(7 + RANK)
random.seed(RANK)
module = torch.nn.Sequential(torch.nn.Linear(8, WIDTH), *[Block() for _ in range(3)],
                             torch.nn.Linear(WIDTH, 1))
optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if "scaler" in USES else None
loader = torch.utils.data.DataLoader(Data(), batch_size=16, shuffle=True, num_workers=WORKERS,
                                     persistent_workers=WORKERS > 0)
live = Live(module, optimizer, scheduler, bucket_cap_mb=0.05,
            rehearse=(lambda ddp: ddp(torch.ones(4, 8)).sum().backward()) if "rehearsal" in USES else None,
            also={"scaler": scaler} if scaler else None)
tries = 0
folders = {tempfile.gettempdir()}
sockets = None


def descriptors():
    return len(os.listdir("/proc/self/fd"))


for epoch in live.epochs(1000):
    for batch in live.batches(loader, accumulate=ACCUMULATE):
        if live.step == STEPS:
            break
        with live:
            tries += 1
            folders.add(os.environ.get("TMPDIR", ""))
            phase = phase_of(live.step)
            if phase == "forward":
                die()
            if phase == "slow":
                time.sleep(6)
            parts = batch if ACCUMULATE > 1 else [batch]
            optimizer.zero_grad()
            for number, (inputs, targets) in enumerate(parts):
                # As no_sync() does it: gradients are exchanged with the last part.
                live.ddp.require_backward_grad_sync = number == len(parts) - 1
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled="bf16" in USES):
                    loss = torch.nn.functional.mse_loss(live(inputs).float(), targets) / len(parts)
                if phase == "backward" and number == len(parts) - 1:
                    module[2].linear.weight.register_hook(lambda _: die())
                if phase == "raise":
                    raise ValueError("a fault of the program")
                (scaler.scale(loss) if scaler else loss).backward()
            if phase == "reduced":
                die()
            if phase == "optimizer":  # half of the parameters are written
                with torch.no_grad():
                    for parameter in list(module.parameters())[:7]:
                        parameter.add_(1.0)
                die()
            if scaler:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            scheduler.step()
            if phase == "after":
                die()
        if live.recovered == 1 and sockets is None:
            sockets = descriptors()
        if CHECKPOINT and live.step % CHECKPOINT == 0:
            save(live.state(), live.step)
    if live.step == STEPS:
        break
summed = hashlib.sha256()
for _, value in sorted(module.state_dict().items()):
    summed.update(value.numpy().tobytes())
for parameter in module.parameters():
    for name in ("exp_avg", "exp_avg_sq"):
        summed.update(optimizer.state[parameter][name].numpy().tobytes())
for state in (torch.get_rng_state().numpy().tobytes(), repr(random.getstate()).encode(),
              repr(scheduler.get_last_lr()).encode(), repr(scaler and scaler.state_dict()).encode()):
    summed.update(state)
live.close()
folders.discard("")
print(f"RESULT {RANK} steps {live.step} tries {tries} recovered {live.recovered} folders {len(folders)} "
      f"leaked {max(0, descriptors() - (sockets or descriptors()))} generation {lockstep.generation()} "
      f"sum {summed.hexdigest()[:32]}", flush=True)
if FOLDER != "." and all(os.path.isdir(folder) for folder in folders):
    print(f"FOLDERS {RANK} are there", file=sys.stderr, flush=True)
