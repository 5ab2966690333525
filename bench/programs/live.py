"""A DistributedDataParallel program with BatchNorm, dropout and several buckets, as _live.py times it.

BENCH_LIVE    "lockstep": with lockstep_torch.Live; "torchft": with torchft's Manager, one replica a
              rank; else it starts anew after a death
BENCH_RANK    the rank, if RANK is another, as it is in each of torchft's replicas
BENCH_STOP    a file that holds the last step once the job shall end: from then on without pauses
BENCH_PAUSE   seconds between steps

Each rank appends lines "EVENT RANK GENERATION STEP NS" to the file BENCH_TIMES: start, imported,
joined (its process group stands), loaded (it has a state and its DDP), and step after each step. It
prints a sum of all that it has at the end. torchft's ranks also stamp together, after a step of
which all ranks were part.
"""

import os
import time

TIMES = os.open(os.environ["BENCH_TIMES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
RANK, WIDTH = int(os.environ.get("BENCH_RANK", os.environ["RANK"])), 128
LIVE = os.environ.get("BENCH_LIVE")
PAUSE = float(os.environ.get("BENCH_PAUSE", "0.05"))
LAST = 10**9


def stamp(event, step=0):
    ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    generation = os.environ.get("LOCKSTEP_GENERATION")
    generation = generation or "0-" + os.environ.get(
        "BENCH_GENERATION", os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    os.write(TIMES, f"{event} {RANK} {generation} {step} {ns}\n".encode())


stamp("start")

import hashlib  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from lockstep_torch import Live  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import lockstep  # noqa: E402

stamp("imported")


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


def last_step():
    """Ranks are at most a step apart, and the file is far ahead of them."""
    global LAST
    if LAST == 10**9 and os.path.exists(os.environ["BENCH_STOP"]):
        with open(os.environ["BENCH_STOP"], encoding="ascii") as file:
            LAST = int(file.read())
    return LAST


def done(step):
    """Whether this was the last step."""
    stamp("step", step)
    if last_step() == 10**9:
        time.sleep(PAUSE)
    return step >= LAST


def join(*arguments, **options):
    init_process_group(*arguments, **options)
    stamp("joined")


init_process_group, dist.init_process_group = dist.init_process_group, join
torch.set_num_threads(1)
torch.manual_seed(RANK)
module = torch.nn.Sequential(torch.nn.Linear(16, WIDTH), *[Block() for _ in range(4)],
                             torch.nn.Linear(WIDTH, 1))
optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10_000)
inputs = torch.randn(64 * 40, 16)
data = torch.utils.data.TensorDataset(inputs, inputs.sin().sum(dim=1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)


def living_on():
    live = Live(module, optimizer, scheduler, bucket_cap_mb=0.1,
                rehearse=lambda ddp: ddp(torch.ones(4, 16)).sum().backward())
    stamp("loaded", live.step)
    over = False
    for _ in live.epochs(10**6):
        for batch in live.batches(loader):
            before = live.step
            with live:
                train_step(live.ddp, *batch)
            over = live.step > before and done(live.step)
            if over:
                break
        if over:
            break
    live.close()


def anew():
    dist.init_process_group("gloo")
    ddp = DistributedDataParallel(module, bucket_cap_mb=0.1)
    stamp("loaded")
    step, over = 0, False
    while not over:
        for batch in loader:
            train_step(ddp, *batch)
            step += 1
            lockstep.report(step=step)
            over = done(step)
            if over:
                break
    dist.destroy_process_group()


def replica():
    """As torchft's own example does it, with a quorum before each step's forward pass."""
    import torchft

    def load(state):
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        stamp("loaded")

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(), min_replica_size=2, load_state_dict=load,
        state_dict=lambda: {"module": module.state_dict(), "optimizer": optimizer.state_dict(),
                            "scheduler": scheduler.state_dict()},
        replica_id=f"replica-{RANK}")
    stamp("joined")
    ddp = torchft.DistributedDataParallel(manager, module, bucket_cap_mb=0.1)
    wrapped = torchft.Optimizer(manager, optimizer)
    over = False
    while not over:
        for x, y in loader:
            wrapped.zero_grad()
            torch.nn.functional.mse_loss(ddp(x), y).backward()
            before = manager.current_step()
            wrapped.step()
            if manager.current_step() == before:
                continue  # a step without effect
            scheduler.step()
            if manager.num_participants() == int(os.environ["BENCH_WORLD"]):
                stamp("together", manager.current_step())
            over = done(manager.current_step())
            if over:
                break
    manager.shutdown(wait=False)


{"lockstep": living_on, "torchft": replica}.get(LIVE, anew)()

total = hashlib.sha256()
for _, value in sorted(module.state_dict().items()):
    total.update(value.numpy().tobytes())
for parameter in module.parameters():
    total.update(optimizer.state[parameter]["exp_avg_sq"].numpy().tobytes())
total.update(torch.get_rng_state().numpy().tobytes())
print(f"SUM {RANK} {total.hexdigest()}", flush=True)
