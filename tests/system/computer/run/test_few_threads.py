"""Programs of a user who may have so many processes and threads, from one on: each program names
what is missing, and none dies of an exception."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from tls import binary

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may be another user")

NONE_LEFT = "Resource temporarily unavailable"
ENOUGH = 40

JOB = """
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: few}
spec:
  command: ["true"]
  prestart: Never
  failurePolicy: {maxRestarts: 0, maxMachineReplacements: 0}
"""

MODEL = ["--layers=1", "--heads=1", "--width=16", "--vocabulary=256", "--sequence-length=16",
         "--global-batch-size=2", "--learning-rate=1e-3", "--tensorboard=none", "--steps=3",
         "--data=/usr/share/common-licenses/GPL-3", "--threads=2"]


@pytest.fixture
def shared():
    """A folder of the user's with our programs: root's own are out of reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        for program in ("lockstep", "lockstep-agent", "lockstep-trainer"):
            shutil.copy(binary(program), folder)
        yield pathlib.Path(folder)


def with_threads(count, folder, *command):
    """The outcome of a program whose user has `count` threads and no other process."""
    user = 60_000 + os.getpid() % 5_000
    return subprocess.run(
        ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "prlimit",
         f"--nproc={count}", *command],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=120, check=False,
        env={"PATH": os.environ["PATH"], "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0",
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"})


def expect_named(done):
    assert 0 < done.returncode < 128, done.stdout  # by no signal, as SIGABRT is
    assert NONE_LEFT in done.stdout and "terminate called" not in done.stdout, done.stdout


def test_run_names_missing_threads_until_there_are_enough(shared):
    job = shared / "job.yaml"
    job.write_text(JOB)
    for count in range(1, ENOUGH):
        done = with_threads(count, shared, shared / "lockstep", "run", job)
        if done.returncode == 0:
            assert "succeeded" in done.stdout, done.stdout
            assert count > 1
            return
        expect_named(done)
        assert "exited with code 78" not in done.stdout, done.stdout  # no mistake in the job
    pytest.fail(f"{ENOUGH} threads were too few")


def test_trainer_names_missing_threads_and_saves_without_one_for_its_checkpoints(shared):
    for count in range(1, ENOUGH):
        checkpoints = shared / f"checkpoints-{count}"
        done = with_threads(count, shared, shared / "lockstep-trainer", "train", *MODEL,
                            f"--checkpoint-dir={checkpoints}")
        if done.returncode == 0:
            assert (checkpoints / "step-00000003/manifest.json").is_file(), done.stdout
            assert count > 1
            return
        expect_named(done)
        assert "no thread can be started" in done.stdout, done.stdout
    pytest.fail(f"{ENOUGH} threads were too few")
