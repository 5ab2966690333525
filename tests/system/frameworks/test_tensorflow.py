"""Programs of MultiWorkerMirroredStrategy, which know nothing of who they are but TF_CONFIG."""

import os
import pathlib
import signal

from run import Run
from waiting import wait_until

PROGRAM = pathlib.Path(__file__).parent / "programs/tf_sum.py"


def start(python, folder, steps, *options):
    return Run(folder, "-m", "2", "-p", "2", "--framework", "TensorFlow", *options, "--", python,
               str(PROGRAM), str(folder), str(steps))


def wait_steps(folder):
    wait_until(lambda: len(list(folder.glob("rank-*"))) == 4, "the first step", patience=300)


def test_workers_form_one_cluster_and_compute_sums(python_with, tmp_path):
    code, _, output = start(python_with("tensorflow"), tmp_path, 3).finish(300)
    assert code == 0, output
    for rank in range(4):
        assert (tmp_path / f"rank-{rank}").read_text() == f"worker {rank} of 4", output


OPTIONS = ["--steps=60", "--checkpoint-every=10", "--seconds-per-step=0.05",
           "--weights=FOLDER/weights.npz"]


def test_job_names_killed_worker_and_ends_with_same_weights(
        python_with, example, tmp_path):
    python = python_with("tensorflow")
    code, _, output = example(python, "tensorflow.yaml", "at-once", *OPTIONS).finish(300)
    assert code == 0, output

    run = example(python, "tensorflow.yaml", "killed", *OPTIONS)
    found = run.wait_ranks(4)
    committed = run.folder / "checkpoints"
    wait_until(lambda: list(committed.rglob("state.npz")), "a checkpoint", patience=300)
    os.kill(found[2][0], signal.SIGKILL)
    code, report, output = run.finish(300)
    assert code == 0, output
    assert "rank 2 on machine 1 was killed by SIGKILL" in output, output
    assert len(report["generations"]) == 2 and "training from step 0\n" in output
    whole = (tmp_path / "at-once/weights.npz").read_bytes()
    assert (run.folder / "weights.npz").read_bytes() == whole, output


def test_job_names_rank_that_failed_although_other_ranks_report_unavailable(python_with, patient, tmp_path):
    run = patient("TensorFlow", 3, python_with("tensorflow"), str(PROGRAM), str(tmp_path), "30")
    code, _, output = run.finish(400)
    assert code == 0, output
    assert "rank 3 on machine 1 exited with code 3" in output, output
    assert "UnavailableError" in output, output


def test_suspended_job_ends_before_its_grace_period_is_over(python_with, tmp_path):
    run = start(python_with("tensorflow"), tmp_path, 10**9)
    run.wait_ranks(4)
    wait_steps(tmp_path)
    run.process.send_signal(signal.SIGTERM)
    run.finish(60)  # of the two minutes that they have
