"""A machine that the kernel gives less CPU than the others: named with its reason, and replaced; and
a gang without one, in which nobody is."""

import json
import os
import re
import signal
import subprocess

import processes
import pytest
from ports import free_port
from run import ROOT, Run, ranks
from run_output import Output
from slowed import possible, slowed
from waiting import holds_for

LATE = 2  # the machine that is slowed
SHARE = 0.02  # of a CPU, that it gets: less than on a computer where fifty others want some
ROUNDS = 20  # seconds: longer than it takes to find one where steps are short
LAST = "is last at the gang's collectives"
NAMED = re.compile(rf"machine (\d) {LAST}: the others wait for it for (\d+)% of each step(.*)")
PYTHON = "/usr/bin/python3"  # the one that has torch

TRAINER = {"trainer": {
    "modelShape": {"layers": 2, "heads": 2, "width": 64, "vocabulary": 256}, "steps": 100_000,
    "data": ["/usr/share/common-licenses/GPL-3"], "globalBatchSize": 32, "sequenceLength": 128,
    "learningRate": 1e-3, "checkpointEvery": 10}}

WATCHED = """
import os, time, torch, torch.distributed as dist, lockstep, lockstep_torch
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(8)]), bucket_cap_mb=0.1)
lockstep_torch.watch(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
saved = time.monotonic()
for step in range(1, 100_000):
    optimizer.zero_grad()
    model(torch.randn(64, 128)).square().mean().backward()
    optimizer.step()
    lockstep.report(step=step, total_steps=100_000)
    if dist.get_rank() == 0 and time.monotonic() > saved + 2:
        saved = time.monotonic()
        print(f"step {step}/", flush=True)
        folder = os.path.join(lockstep.checkpoint_dir(), f"step-{step}")
        os.mkdir(folder)
        lockstep.commit(folder)
"""

# The same model trained twice, by what DistributedDataParallel does of its own and watched.
TWICE = """
import torch, torch.distributed as dist, lockstep, lockstep_torch
dist.init_process_group("gloo")
told = []
lockstep.report = lambda **values: told.append(values["collective_wait_seconds"])


def train(watched):
    torch.manual_seed(0)
    module = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)])
    model = torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=0.03)
    if watched:
        lockstep_torch.watch(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(12):
        optimizer.zero_grad()
        model(torch.randn(8, 64, generator=inputs)).square().mean().backward()
        optimizer.step()
    return [p.detach().double().sum().item().hex() for p in module.parameters()]


plain, watched = train(False), train(True)
assert watched == plain, (watched, plain)
print(len(told), min(told) > 0)
"""


def needs_torch():
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip(f"{PYTHON} has no torch")


def start(folder, spec):
    file = folder / "job.yaml"
    file.write_text(json.dumps({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "late"},
        "spec": {"numMachines": 4, "processesPerMachine": 1, "gracePeriod": "1s",
                 "failurePolicy": {"stragglers": "Replace"}, "logs": {"console": "All"},
                 "checkpoint": {"path": str(folder / "checkpoints")}, **spec}}))
    run = Run(folder, str(file))
    return run, Output(run)


def machine(run, rank):
    """The process of a rank, and all above it up to the run."""
    found, pid = [], ranks(run.mark)[rank][0]
    while pid not in (0, 1, run.process.pid):
        found.append(pid)
        pid = processes.parent(pid)
    return found


def stop(run, output):
    run.process.send_signal(signal.SIGINT)
    run.process.wait(60)
    output.join()


@pytest.mark.skipif(not possible(), reason="needs a cgroup whose CPU time it may limit")
@pytest.mark.parametrize("spec", [
    pytest.param(TRAINER, id="trainer"),
    pytest.param({"command": [PYTHON, "-c", WATCHED]}, id="torch", marks=pytest.mark.skipif(
        "LOCKSTEP_LONG" not in os.environ, reason="a minute more; wants LOCKSTEP_LONG=1"))])
def test_gang_replaces_slowed_machine_and_reports_reason(
        tmp_path, spec):
    if "command" in spec:
        needs_torch()
    run, output = start(tmp_path, spec)
    try:
        run.wait_ranks(4)
        output.wait(r"step \d\d+/", "some steps")
        holds_for(ROUNDS, lambda: LAST not in output.text, "nobody is last all the time")
        with slowed(machine(run, LATE), SHARE):
            said = output.wait(NAMED, "the straggler")
            output.wait(f"machine {LATE}: failurePolicy asks for a replacement",
                        "its replacement")
        output.wait(r"1-2: all 4 ranks running|all 4 ranks running again .* as generation 1-2",
                    "the next generation")
    finally:
        stop(run, output)
    assert int(said[1]) == LATE
    assert int(said[2]) >= 10
    assert "its CPU limit throttled it for" in said[3]
    assert len(NAMED.findall(output.text)) == 1, "said once"
    assert output.text.count("asks for a replacement") == 1


def test_watched_model_trains_same_weights_and_reports_collective_wait():
    needs_torch()
    environment = {"PYTHONPATH": str(ROOT / "worker/python"), "PYTHONDONTWRITEBYTECODE": "1",
                   "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                   "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    trained = [subprocess.Popen([PYTHON, "-c", TWICE], env={**environment, "RANK": str(rank)},
                                text=True, stdout=subprocess.PIPE) for rank in range(2)]
    said = [process.communicate(timeout=240)[0] for process in trained]
    assert said == ["11 True\n"] * 2, "the last step is told when the next one begins"
