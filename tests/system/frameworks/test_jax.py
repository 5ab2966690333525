"""Programs that call jax.distributed.initialize() and nothing of Lockstep's."""

import os
import pathlib
import signal

from run import Run
from waiting import wait_until

PROGRAM = pathlib.Path(__file__).parent / "programs/jax_sum.py"


def start(python, folder, steps):
    return Run(folder, "-m", "2", "-p", "2", "--framework", "Jax", "--", python, str(PROGRAM),
               str(folder), str(steps))


def wait_steps(folder):
    wait_until(lambda: len(list(folder.glob("rank-*"))) == 4, "the first step", patience=300)


def test_processes_find_each_other_without_arguments(python_with, tmp_path):
    code, report, output = start(python_with("jax"), tmp_path, 3).finish(300)
    assert code == 0, output
    for rank in range(4):
        said = (tmp_path / f"rank-{rank}").read_text()
        assert said == f"process {rank} of 4, 1 of 4 devices", output


def test_job_names_killed_process_and_restarts_gang(python_with, tmp_path):
    run = start(python_with("jax"), tmp_path, 400)
    found = run.wait_ranks(4)
    wait_steps(tmp_path)
    os.kill(found[2][0], signal.SIGKILL)
    code, report, output = run.finish(300)
    assert code == 0, output
    assert "rank 2 on machine 1 was killed by SIGKILL" in output, output


def test_job_names_rank_that_failed_although_other_ranks_report_its_death(python_with, patient, tmp_path):
    # Rank 0 is JAX's coordinator: the others notice its death within a second, not after 100.
    run = patient("Jax", 0, python_with("jax"), str(PROGRAM), str(tmp_path), "30")
    code, _, output = run.finish(400)
    assert code == 0, output
    assert "rank 0 on machine 0 exited with code 3" in output, output
    assert "most likely indicates that another task died" in output, output


def test_suspended_job_ends_before_its_grace_period_is_over(python_with, tmp_path):
    run = start(python_with("jax"), tmp_path, 10**9)
    run.wait_ranks(4)
    wait_steps(tmp_path)
    run.process.send_signal(signal.SIGTERM)
    run.finish(60)  # of the two minutes that they have
