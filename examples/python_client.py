"""Trains a small model on four ranks of this computer, from a plain Python program.

    pip install './worker/python[client]'
    python3 examples/python_client.py --machines 2 --processes 2

fit() runs on every rank, with torchrun's environment. lockstep.train() prints what the ranks print
and returns what rank 0 returns. The same function may be defined in a cell of a notebook.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "worker", "python"))
import lockstep  # noqa: E402


def fit(steps: int) -> float:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(dist.get_rank())
    for step in range(1, steps + 1):
        inputs = torch.randn(64, 32, generator=data)
        loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lockstep.report(step=step, total_steps=steps, loss=loss.item())
    dist.barrier()
    return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    try:
        loss = lockstep.train(fit, machines=arguments.machines, processes=arguments.processes,
                              args=[arguments.steps], max_restarts=1, timeout=600)
    except lockstep.JobFailed as failure:
        sys.exit(str(failure))  # with the traceback of the rank that failed first
    print(f"rank 0's last loss: {loss:.4f}")


if __name__ == "__main__":
    main()
