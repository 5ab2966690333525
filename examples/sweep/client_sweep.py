#!/usr/bin/env python3
"""An Optuna study whose trials are function calls on all ranks, by the Python client.

    pip install './worker/python[client]' optuna
    python3 examples/sweep/client_sweep.py --trials 8 --machines 2 --processes 2

Each trial is one call of lockstep.train(): the ranks train on this computer with the trial's
values, and their mean loss is the trial's value. sweep.py also stops poor trials early, and runs
trials on a cluster.
"""

import argparse
import os
import sys

import optuna

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "worker", "python"))
import lockstep  # noqa: E402


def fit(rate: float, width: int, steps: int) -> float:
    """Runs on every rank."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(16, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    data = torch.Generator().manual_seed(dist.get_rank())
    for step in range(1, steps + 1):
        inputs = torch.randn(64, 16, generator=data)
        loss = (model(inputs) - inputs.sin().sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lockstep.report(step=step, total_steps=steps, loss=loss.item())
    total = loss.detach()
    dist.all_reduce(total)
    mean = total.item() / dist.get_world_size()
    dist.destroy_process_group()
    return mean


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--storage", help="such as sqlite:///sweep.db, to continue a study later")
    arguments = parser.parse_args()

    def objective(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
        width = trial.suggest_categorical("width", [8, 32])
        return lockstep.train(fit, machines=arguments.machines, processes=arguments.processes,
                              args=[rate, width, arguments.steps], name=f"trial-{trial.number}",
                              echo=False, timeout=600)

    study = optuna.create_study(direction="minimize", study_name="client-sweep",
                                storage=arguments.storage, load_if_exists=True,
                                sampler=optuna.samplers.TPESampler(seed=0))
    # A trial that fails or takes too long is recorded as failed, and the study goes on.
    study.optimize(objective, n_trials=arguments.trials,
                   catch=(lockstep.JobFailed, lockstep.WaitTimeout))
    done = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
    if not done:
        sys.exit("no trial has succeeded; the log above has each trial's error")
    print(f"best of {len(done)}: loss {study.best_value:.4f} with {study.best_params}")


if __name__ == "__main__":
    main()
