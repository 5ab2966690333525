"""Trains a small model with Horovod and resumes from its checkpoint after a failure.

    lockstep run examples/horovod.yaml
"""

import argparse
import os
import sys
import time

import horovod.torch as hvd
import torch

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
    hvd.init()
    total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum)
    print(f"rank {hvd.rank()} of {hvd.size()}, {hvd.local_rank()} of {hvd.local_size()} here: "
          f"the sum of all ranks is {total.item():.0f}", flush=True)

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    first = 0
    resume = lockstep.latest()
    if resume:
        state = torch.load(os.path.join(resume, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    if hvd.rank() == 0:
        print(f"training from step {first}" + (f" of {resume}" if resume else ""), flush=True)

    for step in range(first + 1, args.steps + 1):
        inputs, targets = batch(step, hvd.rank())
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        # Reduces the gradients one by one, in a fixed order. hvd.DistributedOptimizer joins those
        # that are ready at the same moment, which differ in each step, so it adds in another order.
        for parameter in model.parameters():
            parameter.grad = hvd.allreduce(parameter.grad, op=hvd.Average)
        optimizer.step()
        time.sleep(args.seconds_per_step)
        lockstep.report(step=step, total_steps=args.steps, loss=loss.item(), tokens=len(inputs))
        if hvd.rank() == 0 and step % args.checkpoint_every == 0 and lockstep.checkpoint_dir():
            directory = os.path.join(lockstep.checkpoint_dir(), f"step-{step}")
            os.makedirs(directory)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "step": step}, os.path.join(directory, "state.pt"))
            lockstep.commit(directory)

    if hvd.rank() == 0:
        print(f"trained to step {args.steps}", flush=True)
        if args.weights:
            torch.save(model.state_dict(), args.weights)
    hvd.shutdown()


if __name__ == "__main__":
    main()
