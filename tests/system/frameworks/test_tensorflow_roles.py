"""ParameterServerStrategy by examples/tensorflow-ps.yaml as it stands, but for its Python and
places, and slower: rank 0 is the chief, 1 and 2 are workers, 3 has the variables.
"""

import os
import re
import signal

import processes
import pytest
import yaml
from run import ROOT, Run, ranks
from waiting import wait_until


@pytest.fixture(name="training")
def fixture_training(python_with, tmp_path):
    job = yaml.safe_load((ROOT / "examples/tensorflow-ps.yaml").read_text())
    spec = job["spec"]
    assert spec["command"][0] == "python3"
    spec["command"] = [python_with("tensorflow"), str(ROOT / spec["command"][1]), "--steps=150",
                       "--checkpoint-every=10", "--seconds-per-step=0.1"]
    spec["checkpoint"]["path"] = str(tmp_path / "checkpoints")
    spec["logs"] = {"path": str(tmp_path / "logs")}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    run = Run(tmp_path, str(tmp_path / "job.yaml"))
    yield run
    if run.process.poll() is None:
        run.process.kill()


def wait_checkpoints(run, number):
    committed = run.folder / "checkpoints"
    wait_until(lambda: len(list(committed.rglob("state.npz"))) >= number,
               f"{number} checkpoints", patience=300)


def assert_trained(output):
    updates = re.search(r"trained to step 150 with (\d+) updates", output)
    assert updates, output
    assert 150 <= int(updates[1]) <= 154, "a step whose answer was lost is done once more"


def test_job_succeeds_and_stops_other_roles_when_chief_ends(training):
    training.wait_ranks(4)
    code, report, output = training.finish(400)
    assert code == 0, output
    assert_trained(output)
    assert len(report["generations"]) == 1 and report["restarts"]["total"] == 0, report


def test_killed_worker_restarts_alone_and_training_continues(training):
    before = training.wait_ranks(4)
    wait_checkpoints(training, 1)
    os.kill(before[1][0], signal.SIGKILL)
    after = wait_until(lambda: found if (found := ranks(training.mark)).get(1, before[1]) != before[1]
                       else None, "worker 0 to run again")
    for rank in (0, 2, 3):
        assert after[rank] == before[rank], "its process and its generation"
    wait_until(lambda: "".join(
        file.read_text() for file in (training.folder / "logs").rglob("rank-1.stdout.log")
        ).count("worker 0 serves") == 2, "it to serve again", patience=300)
    os.kill(before[2][0], signal.SIGKILL)  # the other: those that are there do its work
    code, report, output = training.finish(400)
    assert code == 0, output
    assert_trained(output)
    assert len(report["generations"]) == 1, output
    assert report["counters"]["alone"] == 2, report
    assert "rank 1 (worker 0) on machine 0 was killed by SIGKILL; it alone is started again" in output, output
    assert not processes.alive(before[0][0])


def test_killed_parameter_server_restarts_gang_from_checkpoint(training):
    before = training.wait_ranks(4)
    wait_checkpoints(training, 3)
    os.kill(before[3][0], signal.SIGKILL)
    code, report, output = training.finish(400)
    assert code == 0, output
    assert len(report["generations"]) == 2, output
    assert "rank 3 (ps) on machine 1 was killed by SIGKILL" in output, output
    assert len(re.findall(r"training from step (\d+)", output)) == 2
    assert int(re.findall(r"training from step (\d+)", output)[1]) >= 30, output
    assert "trained to step 150" in output
