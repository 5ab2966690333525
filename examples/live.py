"""Trains a small model data-parallel with PyTorch, and loses no step when a rank dies.

    lockstep run examples/live.yaml

Kill a rank while the job runs: the others keep their memory, and make the step in flight again with
the rank's successor. The program also runs under torchrun, or alone.
"""

import argparse
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "worker", "python"))
import lockstep  # noqa: E402
import lockstep_torch  # noqa: E402


class Waves(torch.utils.data.Dataset):
    """Sums of sines: a sample depends on its number alone."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int):
        inputs = torch.randn(32, generator=torch.Generator().manual_seed(index))
        return inputs, inputs.sin().sum(dim=0, keepdim=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--checkpoint-every", type=int, default=50)
    parser.add_argument("--seconds-per-step", type=float, default=0.0,
                        help="sleep this long in each step, as a bigger model would take")
    args = parser.parse_args()

    torch.set_num_threads(1)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    data = Waves()
    sampler = torch.utils.data.DistributedSampler(data, num_replicas=world, rank=rank)
    loader = torch.utils.data.DataLoader(data, batch_size=64, sampler=sampler, drop_last=True)

    torch.manual_seed(rank)
    module = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64), torch.nn.Tanh(),
                                 torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(loader))
    live = lockstep_torch.Live(module, optimizer, scheduler,
                               rehearse=lambda ddp: ddp(torch.ones(4, 32)).sum().backward())

    for epoch in live.epochs(args.epochs):
        sampler.set_epoch(epoch)
        for inputs, targets in live.batches(loader):
            with live:
                loss = torch.nn.functional.mse_loss(live.ddp(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
                lockstep.report(loss=loss.item(), tokens=len(inputs),
                                total_steps=args.epochs * len(loader))
            time.sleep(args.seconds_per_step)
            if live.step % args.checkpoint_every == 0:
                lockstep_torch.save(live.state(), live.step)
    live.close()
    if rank == 0:
        print(f"trained to step {live.step}", flush=True)


if __name__ == "__main__":
    main()
