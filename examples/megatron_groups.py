"""Tensor and data parallelism in the layout of Megatron-LM, made only from torchrun's variables.

    lockstep run examples/megatron.yaml

Consecutive ranks form a tensor parallel group, which stays within a machine. Ranks with the same
place in these groups form a data parallel group. The first layer is split by columns and the second
by rows. Each rank has a part of both, and one sum over the tensor parallel group joins the results.
"""

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "worker", "python"))
import lockstep  # noqa: E402


def make_groups(tensor: int):
    """(tensor parallel group, data parallel group) of this rank. Every rank makes all groups."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if world % tensor:
        raise SystemExit(f"{world} ranks are no multiple of --tensor-model-parallel-size {tensor}")
    mine = {}
    layouts = {"tensor": [range(first, first + tensor) for first in range(0, world, tensor)],
               "data": [range(place, world, tensor) for place in range(tensor)]}
    for name, layout in layouts.items():
        for members in layout:
            group = dist.new_group(list(members))
            if rank in members:
                mine[name] = group
    return mine["tensor"], mine["data"]


class SumForward(torch.autograd.Function):
    """Megatron-LM's reduce_from_tensor_model_parallel_region: sums forward, no-op backward."""

    @staticmethod
    def forward(ctx, part, group):
        total = part.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class SplitLayers(torch.nn.Module):
    """32 -> 64, split by columns; tanh; 64 -> 1, split by rows."""

    def __init__(self, group):
        super().__init__()
        self.group, parts = group, dist.get_world_size(group)
        part = dist.get_rank(group)
        torch.manual_seed(0)  # all ranks draw the same matrices and keep their part
        up, down = torch.randn(64, 32) / 32**0.5, torch.randn(1, 64) / 64**0.5
        self.up = torch.nn.Parameter(up.chunk(parts, dim=0)[part].clone())
        self.down = torch.nn.Parameter(down.chunk(parts, dim=1)[part].clone())

    def forward(self, inputs):
        hidden = torch.tanh(inputs @ self.up.T)
        return SumForward.apply(hidden @ self.down.T, self.group)


def batch(step: int, replica: int):
    """The data of one step, the same for all ranks of a replica."""
    generator = torch.Generator().manual_seed(1_000_003 * step + replica)
    inputs = torch.randn(64, 32, generator=generator)
    return inputs, inputs.sin().sum(dim=1, keepdim=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensor-model-parallel-size", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint-every", type=int, default=20)
    parser.add_argument("--seconds-per-step", type=float, default=0.0,
                        help="sleep this long in each step, as a bigger model would take")
    parser.add_argument("--weights", default="", help="folder for the parts of the trained model")
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    tensor_group, data_group = make_groups(args.tensor_model_parallel_size)
    part, parts = dist.get_rank(tensor_group), dist.get_world_size(tensor_group)
    replica, replicas = dist.get_rank(data_group), dist.get_world_size(data_group)
    model = SplitLayers(tensor_group)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    first = 0
    resume = lockstep.latest()
    if resume:
        state = torch.load(os.path.join(resume, f"part-{part}.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    print(f"part {part} of {parts}, replica {replica} of {replicas}: training from step {first}"
          + (f" of {resume}" if resume else ""), flush=True)

    for step in range(first + 1, args.steps + 1):
        inputs, targets = batch(step, replica)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=data_group)
            parameter.grad /= replicas
        optimizer.step()
        time.sleep(args.seconds_per_step)
        lockstep.report(step=step, total_steps=args.steps, loss=loss.item())
        if step % args.checkpoint_every == 0 and lockstep.checkpoint_dir():
            directory = os.path.join(lockstep.checkpoint_dir(), f"step-{step}")
            if replica == 0:
                os.makedirs(directory, exist_ok=True)
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "step": step}, os.path.join(directory, f"part-{part}.pt"))
            dist.barrier()  # waits until every part is written
            if dist.get_rank() == 0:
                lockstep.commit(directory)

    if replica == 0 and args.weights:
        os.makedirs(args.weights, exist_ok=True)
        torch.save(model.state_dict(), os.path.join(args.weights, f"part-{part}.pt"))
    if dist.get_rank() == 0:
        print(f"trained to step {args.steps}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
