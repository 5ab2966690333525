"""`lockstep run` with real programs: started, killed, healed and reported by the command itself."""

import os
import signal
import sys

from run import ROOT, Run, ranks
from waiting import wait_until

def gate(folder):
    """A FIFO, held open: who reads it waits until it is closed."""
    path = folder / "gate"
    os.mkfifo(path)
    return path, os.open(path, os.O_RDWR)


def test_a_rank_that_is_killed_comes_back_and_the_job_succeeds(tmp_path):
    path, held = gate(tmp_path)
    run = Run(tmp_path, "-m", "2", "-p", "2", "--", "/bin/sh", "-c", f"read -r x <{path}; exit 0")
    first = run.wait_ranks(4)
    os.kill(first[3][0], signal.SIGKILL)
    run.wait_ranks(4, but_not_in=first[3][1])
    path.unlink()
    path.touch()
    os.close(held)
    code, report, output = run.finish()
    assert code == 0, output
    assert report["state"] == "Succeeded"
    assert len(report["generations"]) == 2, report


def test_a_job_that_fails_exits_with_its_own_code(tmp_path):
    run = Run(tmp_path, "-m", "2", "-p", "1", "--", "/bin/sh", "-c", "exit 2")
    code, report, output = run.finish()
    assert code == 2, output
    assert report["state"] == "Failed"


def test_a_training_started_by_lockstep_run_resumes_after_a_kill(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(f"""
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {{name: ddp}}
spec:
  numMachines: 2
  processesPerMachine: 2
  command: [{sys.executable}, {ROOT}/examples/ddp.py]
  args: [--steps, "40", --checkpoint-every, "5", --seconds-per-step, "0.05"]
  checkpoint: {{path: {tmp_path}/checkpoints}}
""")
    run = Run(tmp_path, str(job))
    wait_until(lambda: list(tmp_path.glob("checkpoints/checkpoints/*/0*.*")), "a checkpoint", 90)
    os.kill(ranks(run.mark)[1][0], signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    assert report["state"] == "Succeeded"
    assert "training from step" in output.split("training from step 0")[-1], output
