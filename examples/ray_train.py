"""Fits a line with Ray Train, data parallel over Gloo, with a worker on each machine. It resumes
from its last checkpoint and contains no call of Lockstep.

    ray_train.py FOLDER [STEPS [SECONDS]]: STEPS steps of at least SECONDS each
"""

import os
import sys
import tempfile
import time

import ray
import ray.train
import ray.train.torch
import torch
from torch.nn.parallel import DistributedDataParallel


def load(model, optimizer):
    """Loads the checkpoint, if there is one, and returns the first step."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        saved = torch.load(os.path.join(folder, "state.pt"))
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"] + 1


def save(step, model, optimizer, loss):
    """All workers report. Rank 0 adds the checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if ray.train.get_context().get_world_rank() == 0:
            torch.save({"step": step, "model": model.state_dict(),
                        "optimizer": optimizer.state_dict()}, os.path.join(folder, "state.pt"))
            checkpoint = ray.train.Checkpoint.from_directory(folder)
        ray.train.report({"step": step, "loss": loss}, checkpoint=checkpoint)


def train(config):
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(0)
    line = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(line.parameters(), 0.05)
    begin = load(line, optimizer)
    if rank == 0:
        print(f"training from step {begin}", flush=True)
    model = ray.train.torch.prepare_model(line)
    assert isinstance(model, DistributedDataParallel)
    for step in range(begin, config["steps"]):
        time.sleep(config["seconds"])
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(2 * step + rank))
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            save(step, line, optimizer, loss.item())
    if rank == 0:
        print("weights", [round(weight, 2) for weight in line.weight[0].tolist()], flush=True)


if __name__ == "__main__":
    ray.init()
    nodes = len(ray.nodes())
    trainer = ray.train.torch.TorchTrainer(
        train,
        train_loop_config={"steps": int(sys.argv[2]) if len(sys.argv) > 2 else 60,
                           "seconds": float(sys.argv[3]) if len(sys.argv) > 3 else 0.0},
        scaling_config=ray.train.ScalingConfig(num_workers=nodes,
                                               placement_strategy="STRICT_SPREAD"),
        run_config=ray.train.RunConfig(storage_path=os.path.abspath(sys.argv[1]), name="line"))
    result = trainer.fit()
    with result.checkpoint.as_directory() as kept:
        print(f"{nodes} workers did step", torch.load(os.path.join(kept, "state.pt"))["step"],
              flush=True)
