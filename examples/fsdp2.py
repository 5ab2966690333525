"""Shards a small model with PyTorch's FSDP2 (fully_shard) and resumes from its sharded checkpoint.

    lockstep run examples/fsdp2.yaml

It needs PyTorch 2.6 or later. It uses NCCL on GPUs and Gloo on CPUs. Each rank saves its own shards,
and torch.distributed.checkpoint loads them for any number of ranks.
"""

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "worker", "python"))
import lockstep  # noqa: E402
import lockstep_torch  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def make_model(width: int, blocks: int) -> torch.nn.Module:
    model = torch.nn.Sequential(*(Block(width) for _ in range(blocks)), torch.nn.Linear(width, 1))
    for block in model:
        fully_shard(block)  # a block's parameters are gathered only while the block computes
    return fully_shard(model)


def batch(step: int, rank: int, width: int, device: torch.device):
    """The data of one step. It depends only on step and rank."""
    generator = torch.Generator().manual_seed(1_000_003 * step + rank)
    inputs = torch.randn(32, width, generator=generator)
    return inputs.to(device), inputs.sin().sum(dim=1, keepdim=True).to(device)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--checkpoint-every", type=int, default=10)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--seconds-per-step", type=float, default=0.0,
                        help="sleep this long in each step, as a bigger model would take")
    parser.add_argument("--weights", default="", help="file for the whole model, from rank 0")
    args = parser.parse_args()

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank = dist.get_rank()

    torch.manual_seed(0)
    with device:
        model = make_model(args.width, args.blocks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def state_at(step: int):
        parameters, moments = get_state_dict(model, optimizer)  # this rank's shards
        return {"step": step, "model": parameters, "optimizer": moments}

    loaded = lockstep_torch.load(into=state_at(0))
    if loaded:
        set_state_dict(model, optimizer, model_state_dict=loaded["model"],
                       optim_state_dict=loaded["optimizer"])
    first = loaded["step"] if loaded else 0
    if rank == 0:
        print(f"FSDP2 on {dist.get_world_size()} ranks, training from step {first}", flush=True)

    for step in range(first + 1, args.steps + 1):
        inputs, targets = batch(step, rank, args.width, device)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(args.seconds_per_step)
        lockstep.report(step=step, total_steps=args.steps, loss=loss.item(), tokens=len(inputs))
        if step % args.checkpoint_every == 0:
            lockstep_torch.save(state_at(step), step, sharded=True)  # all ranks save

    if args.weights:  # all ranks send their shards to rank 0
        whole = get_model_state_dict(
            model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        if rank == 0:
            torch.save(whole, args.weights)
    if rank == 0:
        print(f"trained to step {args.steps}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
