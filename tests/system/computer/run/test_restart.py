"""`lockstep restart` of a run on this computer: a new generation, uncharged, now or at a commit."""

import os
import subprocess
import sys
import uuid

import pytest
from run import Run
from tls import binary
from waiting import wait_until

PROGRAM = """
import lockstep, os, sys, time
folder, step = sys.argv[1], 0
open(f"{folder}/began-{lockstep.generation()}-{os.environ['RANK']}", "w").close()
while not os.path.exists(f"{folder}/end"):
    if os.path.exists(f"{folder}/commit") and os.environ["RANK"] == "0":
        step += 1
        part = os.path.join(lockstep.checkpoint_dir(), f"step-{step}")
        os.makedirs(part)
        lockstep.commit(part)
        time.sleep(0.3)  # or it would write checkpoints without a pause
    time.sleep(0.01)
"""


def restart(*arguments):
    return subprocess.run([binary("lockstep"), "restart", *arguments], capture_output=True,
                          text=True, timeout=60, check=False,
                          env={**os.environ, "USER": "alice"})


@pytest.fixture
def name():
    return "job-" + uuid.uuid4().hex[:8]  # other runs may be under way


def test_restart_begins_a_new_generation_now_or_at_the_next_commit(tmp_path, name):
    program = tmp_path / f"{name}.py"
    program.write_text(PROGRAM)
    run = Run(tmp_path, "-m", "2", "--checkpoint", str(tmp_path / "ckpt"), "--",
              sys.executable, str(program), str(tmp_path))

    def began(number):
        wait_until(lambda: len(list(tmp_path.glob(f"began-1-{number}-*"))) == 2,
                   lambda: sorted(each.name for each in tmp_path.iterdir()), patience=60)

    began(1)
    done = restart(name, "--reason", "new rate")
    assert (done.returncode, done.stdout) == (0, f"run {name} restarts\n"), done.stderr
    began(2)
    done = restart("--pid", str(run.process.pid), "--at-commit")
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("began-1-3-*"))
    (tmp_path / "commit").touch()
    began(3)
    (tmp_path / "end").touch()
    code, report, output = run.finish()
    assert code == 0, output
    assert "ended: restarted on request of alice: new rate; both ranks running again" in output
    assert report["restarts"] == {"total": 2, "application": 0, "infrastructure": 0, "stopped": 2}
    assert report["history"][0]["reason"] == "restarted on request of alice: new rate"
    assert report["restart"]["atCommit"]
    assert "step-" in output.split("generation 1-3")[-1], "from a commit"
    done = restart(name)
    assert done.returncode != 0
    done = restart("--pid", str(run.process.pid))
    assert done.returncode == 3 and "is not a `lockstep run` of yours" in done.stderr
