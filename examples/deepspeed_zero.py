"""Trains a small model with DeepSpeed (ZeRO stage 2) and resumes from its checkpoint after a
failure.

    lockstep run examples/deepspeed.yaml

DeepSpeed reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_* and, without GPUs, LOCAL_SIZE. It needs no
`deepspeed` launcher. Each rank saves its own part of the optimizer.
"""

import argparse
import os
import sys
import time

import deepspeed
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
    parser.add_argument("--stage", type=int, default=2, help="ZeRO stage: 0, 1 or 2")
    parser.add_argument("--checkpoint-every", type=int, default=20)
    parser.add_argument("--seconds-per-step", type=float, default=0.0,
                        help="sleep this long in each step, as a bigger model would take")
    parser.add_argument("--weights", default="", help="file for the trained weights, from rank 0")
    args = parser.parse_args()

    torch.set_num_threads(1)
    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo")
    rank = torch.distributed.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_micro_batch_size_per_gpu": 64,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_optimization": {"stage": args.stage},
    })

    first = 0
    resume = lockstep.latest()
    if resume:
        engine.load_checkpoint(resume)
        first = engine.global_steps
    if rank == 0:
        print(f"ZeRO stage {engine.zero_optimization_stage()} on {engine.dp_world_size} ranks, "
              f"training from step {first}" + (f" of {resume}" if resume else ""), flush=True)

    for step in range(first + 1, args.steps + 1):
        inputs, targets = (part.to(engine.device) for part in batch(step, rank))
        loss = torch.nn.functional.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        engine.step()
        time.sleep(args.seconds_per_step)
        lockstep.report(step=step, total_steps=args.steps, loss=loss.item(), tokens=len(inputs))
        if step % args.checkpoint_every == 0 and lockstep.checkpoint_dir():
            directory = os.path.join(lockstep.checkpoint_dir(), f"step-{step}")
            engine.save_checkpoint(directory)  # all ranks save, and wait for each other
            if rank == 0:
                lockstep.commit(directory)

    if rank == 0:
        print(f"trained to step {args.steps}", flush=True)
        if args.weights:
            torch.save(engine.module.state_dict(), args.weights)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
