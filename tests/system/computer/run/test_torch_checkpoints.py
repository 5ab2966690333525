"""lockstep_torch.save and load under `lockstep run`. The program of docs/guides/programs.md goes through a lost
process and a lost machine, and ends with the weights of a run that was left alone."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import processes
import pytest
from memory_parts import held
from run import ROOT, Run
from waiting import wait_until

TORCH_PYTHON = next((python for python in (os.environ.get("TORCH_PYTHON"), "/usr/bin/python3", sys.executable)
                     if python and subprocess.run([python, "-c", "import torch.distributed"], check=False,
                                                  capture_output=True).returncode == 0), None)
pytestmark = pytest.mark.skipif(TORCH_PYTHON is None, reason="no Python here has torch")

# Each rank stops after the report of these steps until the test lets it go on. What it loaded is noted,
# and takes long enough for the ledger, which counts in milliseconds.
GATE = """
import os, time
import lockstep, lockstep_torch, torch

steps = [int(step) for step in os.environ["HOLD"].split()]
folder, rank = os.environ["FOLDER"], os.environ["RANK"]
report, load, read = lockstep.report, lockstep_torch.load, torch.load


def held(step, **more):
    report(step=step, **more)
    if step in steps:
        open(f"{folder}/at-{step}-{rank}", "w").close()
    while step in steps and not os.path.exists(f"{folder}/go-{step}"):
        time.sleep(0.01)


def noted(**options):
    state = load(**options)
    with open(f"{folder}/loaded-{rank}", "a") as log:
        print((state or {"step": 0})["step"], lockstep.latest(), file=log)
    return state


def slowly(*arguments, **options):
    time.sleep(0.02)
    return read(*arguments, **options)


lockstep.report, lockstep_torch.load, torch.load = held, noted, slowly
"""

JOB = """
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {{name: torch}}
spec:
  numMachines: {machines}
  processesPerMachine: {processes}
  command: [{python}, train.py]
  workingDir: {folder}
  env: [{{name: HOLD, value: "{hold}"}}, {{name: FOLDER, value: {folder}}}, {{name: OMP_NUM_THREADS, value: "1"}}]
  failurePolicy: {{machineLostAfter: 5s}}
  checkpoint: {checkpoint}
"""


def start(folder, hold="", checkpoint="{memory: {size: 64Mi}}", text=None, machines=2):
    folder.mkdir()
    if text is None:
        text = re.search(r"```python\n(import lockstep\nimport lockstep_torch\n.*?)```",
                         (ROOT / "docs/guides/programs.md").read_text(), re.DOTALL)[1]
    (folder / "gate.py").write_text(GATE)
    (folder / "train.py").write_text(("import gate\n" if hold else "") + text)
    (folder / "job.yaml").write_text(JOB.format(python=TORCH_PYTHON, folder=folder, hold=hold,
                                                checkpoint=checkpoint, machines=machines,
                                                processes=2 // machines))
    return Run(folder, "-v", str(folder / "job.yaml"))


def wait_at(run, step):
    """Until both ranks have done this step; {rank: its pid}."""
    wait_until(lambda: all((run.folder / f"at-{step}-{rank}").exists() for rank in (0, 1)),
               f"step {step}", patience=120)
    return {rank: pid for rank, (pid, _) in run.wait_ranks(2).items()}


def go_on(run, step, kill):
    os.kill(kill, signal.SIGKILL)
    (run.folder / f"go-{step}").touch()


def wait_held_twice(pids, step):
    """Until each machine holds both parts of a step's checkpoint, and none before it."""
    folders = [pathlib.Path(processes.environment(pid)["LOCKSTEP_SOCKET"]).parent for pid in pids.values()]
    wait_until(lambda: all(held(folder) == [("0", str(step), 1), ("1", str(step), 1)] for folder in folders),
               lambda: f"both parts of step {step}: {[held(folder) for folder in folders]}")


def loaded(run, rank):
    """[(step, the checkpoint's folder)], one for each generation."""
    return [tuple(line.split()) for line in (run.folder / f"loaded-{rank}").read_text().splitlines()]


def test_killed_rank_and_lost_machine_cost_no_saved_step_and_change_no_weight(tmp_path):
    undisturbed = start(tmp_path / "undisturbed")
    run = start(tmp_path / "run", hold="30 60")
    go_on(run, 30, kill=wait_at(run, 30)[1])
    pids = wait_at(run, 60)
    wait_held_twice(pids, 59)
    go_on(run, 60, kill=processes.parent(pids[1]))
    code, report, output = run.finish()
    assert code == 0, output
    assert [step for step, _ in loaded(run, 1)] == ["0", "29", "59"], output
    assert all("/memory/" in folder for _, folder in loaded(run, 1)[1:])
    assert [step for step, _ in loaded(run, 0)] == ["0", "29", "59"], output
    lost = report["ledger"]["machineMilliseconds"]
    assert 2 * 2 * 20 <= lost["CheckpointLoad"] < lost["StartUp"], report["ledger"]
    assert report["ledger"]["lostTo"]["MachineLost"] > 0 and "%" in report["ledger"]["goodput"]
    assert report["restarts"]["total"] == len(report["history"]) == 2, report
    code, _, output = undisturbed.finish()
    assert code == 0, output
    assert ((tmp_path / "run/weights.pt").read_bytes()
            == (tmp_path / "undisturbed/weights.pt").read_bytes())


# Each rank has tensors of its own, and one of another size; a number and a list go with them.
SHARDED = """
import os, sys
import torch, torch.distributed as dist
import lockstep, lockstep_torch

dist.init_process_group("gloo")
rank = dist.get_rank()


def state(step):
    return {"step": step, f"own-{rank}": torch.full((3 + rank,), step * 10.0 + rank),
            "deep": {f"more-{rank}": torch.tensor([step])}}


into = state(0)
assert (lockstep_torch.load(into=into) is into) == bool(lockstep.latest())
first = int(into["deep"][f"more-{rank}"])
assert torch.equal(into[f"own-{rank}"], state(first)[f"own-{rank}"])
with open(f"{os.environ['FOLDER']}/loaded-{rank}", "a") as log:
    print(first, lockstep.latest(), file=log)
for step in range(first + 1, 7):
    lockstep.report(step=step)
    lockstep_torch.save(state(step), step, sharded=True)
"""


@pytest.mark.parametrize("checkpoint", ["{{memory: {{size: 64Mi}}}}", "{{path: {folder}/ckpt}}"],
                         ids=["memory", "disk"])
def test_each_rank_gets_its_own_shard_back(tmp_path, checkpoint):
    folder = tmp_path / "run"
    run = start(folder, hold="4", checkpoint=checkpoint.format(folder=folder), text=SHARDED,
                machines=1)  # so that shards stand beside each other in memory, too
    go_on(run, 4, kill=wait_at(run, 4)[1])
    code, _, output = run.finish()
    assert code == 0, output
    for rank in (0, 1):
        assert [line[0] for line in loaded(run, rank)[-1:]] == ["3"], output
