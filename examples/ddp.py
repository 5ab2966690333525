"""Trains a small model data-parallel with PyTorch and resumes from its checkpoint after a failure.

    lockstep run examples/torch-ddp.yaml

Only three calls concern Lockstep: latest() names the checkpoint to resume from, commit() makes a
checkpoint complete, and report() reports progress. The program also runs under torchrun, or alone.
"""

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "worker", "python"))
import lockstep  # noqa: E402


def batch(step: int, rank: int):
    """The data of one step. It depends only on step and rank."""
    generator = torch.Generator().manual_seed(1_000_003 * step + rank)
    inputs = torch.randn(64, 32, generator=generator)
    return inputs, inputs.sin().sum(dim=1, keepdim=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint-every", type=int, default=20)
    parser.add_argument("--seconds-per-step", type=float, default=0.0,
                        help="sleep this long in each step, as a bigger model would take")
    parser.add_argument("--weights", default="", help="file for the trained weights, from rank 0")
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # DistributedDataParallel reorders its buckets after the first step. This extra step makes every
    # real step add in the same order, wherever training begins. So an interrupted training ends
    # with the same weights as an uninterrupted one, bit for bit.
    model(batch(0, rank)[0]).sum().backward()
    first = 0
    resume = lockstep.latest()
    if resume:
        state = torch.load(os.path.join(resume, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    if rank == 0:
        print(f"training from step {first}" + (f" of {resume}" if resume else ""), flush=True)

    for step in range(first + 1, args.steps + 1):
        inputs, targets = batch(step, rank)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(args.seconds_per_step)
        lockstep.report(step=step, total_steps=args.steps, loss=loss.item(), tokens=len(inputs))
        if rank == 0 and step % args.checkpoint_every == 0 and lockstep.checkpoint_dir():
            save(model, optimizer, step)

    if rank == 0:
        inputs, targets = batch(args.steps, rank)
        loss = torch.nn.functional.mse_loss(model.module(inputs), targets)
        print(f"trained to step {args.steps}, loss {loss.item():.6f}", flush=True)
        if args.weights:
            torch.save(model.state_dict(), args.weights)
    dist.destroy_process_group()


def save(model, optimizer, step: int) -> None:
    directory = os.path.join(lockstep.checkpoint_dir(), f"step-{step}")
    os.makedirs(directory)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, os.path.join(directory, "state.pt"))
    lockstep.commit(directory)


if __name__ == "__main__":
    main()
