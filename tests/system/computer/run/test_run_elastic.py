"""spec.elastic under `lockstep run`: a machine is lost, unschedulable for a while, and comes back."""

import json
import os
import pathlib
import re
import signal

from run import Run, ranks
from run_output import Output
from trainer_jobs import job, wait_commits, weights

STEPS = 700  # far more than are done before the last signal
# Of 3 and of 2 machines sums differ in their last bits, so that a step at a wrong size shows.
TRAINER = {"globalBatchSize": 12, "microBatchSize": 1, "decaySteps": STEPS, "checkpointEvery": 5}


def elastic_job(folder, **elastic):
    file = job(folder, machines=3, processes=1, steps=STEPS, **TRAINER)
    document = json.loads(pathlib.Path(file).read_text())
    document["spec"]["elastic"] = {"shrinkAfter": "300ms", "growAfter": "0s", **elastic}
    pathlib.Path(file).write_text(json.dumps(document))
    return file


def agent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def by_hand(folder, *sizes):
    """One run after the other, of (machines, steps until then)."""
    folder.mkdir()
    for machines, until in sizes:
        code, _, output = Run(folder, job(folder, machines=machines, processes=1, steps=until,
                                          **TRAINER)).finish()
        assert code == 0, output
    return weights(output)


def test_gang_shrinks_after_lost_machine_and_grows_at_commit_with_expected_weights(tmp_path):
    away = tmp_path / "away"
    away.write_text("")
    run = Run(tmp_path, "--unschedulable", str(away), elastic_job(tmp_path))
    said = Output(run)
    wait_commits(tmp_path)
    first = ranks(run.mark)
    away.write_text("2\n")
    os.kill(agent_of(first[2][0]), signal.SIGKILL)
    small = run.wait_ranks(2, but_not_in=first[0][1])
    os.kill(small[0][0], signal.SIGSTOP)  # no step until the machine is back
    away.write_text("")
    said.wait(r"the gang is made of 3 of 3 machines \(0-2\) from its next checkpoint on", "growth")
    assert ranks(run.mark) == small
    os.kill(small[0][0], signal.SIGCONT)
    code = run.process.wait(120)
    output, report = said.join(), json.loads(run.report_file.read_text())
    assert code == 0, output
    assert "the gang is made of 2 of 3 machines (0-1): machine 2 found no node" in output
    assert report["elastic"]["members"] == "0-2"
    # The loss is charged; that the gang shrank and grew is not.
    assert report["restarts"]["infrastructure"] == 1, report
    assert report["restarts"]["application"] == 0, report
    shrunk, grown = [int(step) for step in re.findall(r"resuming at step (\d+)", output)]
    assert shrunk < grown
    assert weights(output) == by_hand(tmp_path / "hand", (3, shrunk), (2, grown), (3, STEPS))


def test_gang_starts_small_if_a_machine_finds_no_node(tmp_path):
    away = tmp_path / "away"
    away.write_text("1")
    code, report, output = Run(tmp_path, "--unschedulable", str(away), elastic_job(tmp_path)).finish()
    assert code == 0, output
    assert "the gang is made of 2 of 3 machines (0,2): machine 1 found no node" in output
    assert report["elastic"]["members"] == "0,2"
    assert weights(output) == by_hand(tmp_path / "hand", (2, STEPS))
