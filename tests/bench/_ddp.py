"""A DistributedDataParallel script as users write it, which stamps what it does and dies once.

Stamps are those of _bench.py: start, imported, joined (the process group stands), step (the first
one is done). Before the first restart the last rank kills itself after a few steps, and not before
BENCH_LIVES seconds are over; after it, all train a few steps and are done.
"""

import itertools
import os
import signal
import socket
import time

TIMES = os.open(os.environ["BENCH_TIMES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LIVES = float(os.environ.get("BENCH_LIVES", "0"))
RESTARTED = int(int(os.environ["TORCHELASTIC_RESTART_COUNT"]) > 0)


def stamp(event):
    ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    os.write(TIMES, f"{event} {RANK} {RESTARTED} {ns}\n".encode())


stamp("start")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

stamp("imported")
torch.manual_seed(1)
dist.init_process_group("gloo")
stamp("joined")

model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
began = time.monotonic()
for step in itertools.count() if LIVES and not RESTARTED else range(10):
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 0:
        stamp("step")
        with socket.socket(socket.AF_UNIX) as agent:  # spares are made from the first step on
            agent.connect(os.environ["LOCKSTEP_SOCKET"])
            agent.sendall(f'{{"rank": {RANK}, "step": 1}}\n'.encode())
    if LIVES:
        time.sleep(0.02)
    if step >= 5 and time.monotonic() - began >= LIVES and not RESTARTED and RANK == WORLD - 1:
        stamp("death")
        os.kill(os.getpid(), signal.SIGKILL)
dist.destroy_process_group()
