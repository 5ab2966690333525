"""`lockstep run` with real programs: started, killed, healed and reported by the command itself."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import processes
from tls import binary
from waiting import wait_until

ROOT = pathlib.Path(__file__).parents[2]
MARK = "RUN_UNDER_TEST"


def ranks(mark):
    """Rank -> (pid, generation)."""
    found = {}
    for pid in processes.with_variable(MARK, mark):
        variables = processes.environment(pid)
        if "RANK" in variables:
            found[int(variables["RANK"])] = (pid, variables.get("LOCKSTEP_GENERATION"))
    return found


class Run:
    """One `lockstep run`, its report, and a mark in the environment of all that it starts."""

    def __init__(self, folder, *arguments):
        self.mark, self.folder = str(folder), folder
        self.report_file = folder / "report.json"
        environment = {**os.environ, MARK: self.mark, "PYTHONPATH": str(ROOT / "worker/python"),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [binary("lockstep"), "run", "--report", str(self.report_file), *arguments],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)

    def wait_ranks(self, count, but_not_in=None):
        def up():
            found = ranks(self.mark)
            fits = len(found) == count and all(g != but_not_in for _, g in found.values())
            return found if fits else None

        return wait_until(up, f"{count} ranks", patience=60)

    def finish(self, patience=120):
        """(exit code, report); nothing is left."""
        output, _ = self.process.communicate(timeout=patience)
        assert self.report_file.exists(), output
        wait_until(lambda: not processes.with_variable(MARK, self.mark), "all it started to end")
        return self.process.returncode, json.loads(self.report_file.read_text()), output


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
