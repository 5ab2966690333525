"""lockstep_torch.Live with the torch that this computer has: ranks die, and no bit of the result changes."""

import os
import subprocess
import sys

import live_runs
import pytest

PYTHON = next((python for python in (os.environ.get("TORCH_PYTHON"), "/usr/bin/python3", sys.executable)
               if python and subprocess.run([python, "-c", "import torch.distributed"], check=False,
                                            capture_output=True).returncode == 0), None)
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no Python here has torch")


def test_survivors_live_on_with_the_bits_of_an_undisturbed_run(tmp_path):
    whole = live_runs.start(tmp_path / "whole", PYTHON, machines=1, STEPS="9")
    plan = {"1@3": "forward", "0@5": "reduced"}
    run = live_runs.start(tmp_path / "run", PYTHON, plan, machines=1, STEPS="9", USES="rehearsal")
    found, report, output = live_runs.finish(run)
    expected, _, _ = live_runs.finish(whole)
    assert live_runs.kept(report) == [0, 1, 1], output
    assert output.count("stays alive in generation 1-2 at step 3") == 1, output
    assert found[1].recovered == 1 and found[1].steps == 9, output
    assert found[0].recovered == 0 and found[0].tries < 9, "a new process, which passed over what was done"
    assert found[1].folders == 1, "its TMPDIR"
    assert live_runs.sums(found) == live_runs.sums(expected), output


def test_error_of_the_program_itself_is_no_death_of_a_peer(tmp_path):
    run = live_runs.start(tmp_path / "run", PYTHON, {"0@2": "raise"}, machines=1, processes=1,
                          restarts=0, STEPS="4")
    code, _, output = run.finish()
    assert code == 1 and "ValueError: a fault of the program" in output, output


def test_outside_lockstep_it_is_distributed_data_parallel(tmp_path):
    variables = {name: value for name, value in os.environ.items()
                 if name != "RANK" and not name.startswith("LOCKSTEP_")}
    done = subprocess.run(
        [PYTHON, str(live_runs.ROOT / "tests/lib/live_program.py")], cwd=tmp_path, check=False,
        env={**variables, "PYTHONPATH": str(live_runs.ROOT / "worker/python"), "STEPS": "3"},
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert live_runs.results(done.stdout)[0].steps == 3, done.stdout
