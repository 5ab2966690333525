"""`lockstep-trainer train --in-place`: ranks that outlive a generation, under `lockstep run`."""

import json
import os
import re
import signal
import time

import trainer_jobs
from run import Run, ranks
from trainer_jobs import wait_commits, weights
from waiting import wait_until


def job(folder, machines=2, processes=2, steps=600, flags=("--in-place",)):
    """With a model that makes a step in milliseconds, of which rank 0 writes each into `steps`."""
    file = folder / "job.yaml"
    command = ["lockstep-trainer", "train", "--layers", "2", "--heads", "2", "--width", "32",
               "--vocabulary", "256", "--data", "/usr/share/common-licenses/GPL-3",
               "--global-batch-size", "8", "--sequence-length", "32", "--learning-rate", "1e-3",
               "--checkpoint-every", "50", "--steps", str(steps), "--metrics",
               str(folder / "steps"), *flags]
    file.write_text(json.dumps({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "gpt"},
        "spec": {"numMachines": machines, "processesPerMachine": processes, "command": command,
                 "failurePolicy": {"maxRestarts": 50},
                 "checkpoint": {"path": str(folder / "checkpoints")}}}))
    return str(file)


def steps_of(folder):
    try:
        return [json.loads(line)["step"] for line in (folder / "steps").read_text().splitlines()]
    except OSError:
        return []


def wait_step(folder, step):
    wait_until(lambda: steps_of(folder)[-1:] >= [step], f"step {step}", 90)


def kill(run, rank):
    os.kill(ranks(run.mark)[rank][0], signal.SIGKILL)


def pids(run, count):
    return {rank: pid for rank, (pid, _) in run.wait_ranks(count).items()}


def weights_alone(folder, steps):
    folder.mkdir()
    code, _, output = Run(folder, job(folder, 1, 1, steps)).finish()
    assert code == 0, output
    return weights(output)


def test_who_survives_keeps_its_process_and_gives_its_state_to_the_one_that_died(tmp_path):
    run = Run(tmp_path, job(tmp_path, machines=1))
    wait_step(tmp_path, 75)
    before = pids(run, 2)
    kill(run, 1)
    wait_step(tmp_path, steps_of(tmp_path)[-1] + 20)
    after = pids(run, 2)
    assert after[0] == before[0] and after[1] != before[1]
    code, report, output = run.finish()
    assert code == 0, output
    assert [g["failure"].get("rank") for g in report["generations"]] == [1, None], output
    assert report["generations"][1]["kept"] == 1
    assert "with the state of rank 0" in output and "resuming at step" not in output, output
    assert steps_of(tmp_path) == list(range(1, 601)), "each step is made and told once"
    assert weights(output) == weights_alone(tmp_path / "alone", 600)


def test_a_job_says_it_by_its_recovery(tmp_path):
    steps = 800  # far more than are done before the signal
    run = Run(tmp_path, trainer_jobs.job(tmp_path, steps=steps, recovery="InPlace"))
    wait_commits(tmp_path, 1)
    before = pids(run, 4)
    kill(run, 0)
    wait_until(lambda: pids(run, 4)[0] != before[0], "rank 0's next process", 60)
    assert {rank: pid for rank, pid in pids(run, 4).items() if rank > 0} == {
        rank: pid for rank, pid in before.items() if rank > 0}
    code, report, output = run.finish()
    assert code == 0, output
    assert report["generations"][1]["kept"] == 3, output
    assert "resuming at step" not in output, output
    alone = tmp_path / "alone"
    alone.mkdir()
    assert weights(output) == weights(Run(alone, trainer_jobs.job(alone, steps=steps)).finish()[2])


def test_any_rank_may_die_and_a_second_one_at_any_time_of_the_recovery(tmp_path):
    run = Run(tmp_path, job(tmp_path, steps=700))
    pauses = [None, 0, 0.01, 0.03, 0.1, 0.3]
    for n, pause in enumerate(pauses):
        wait_step(tmp_path, 20 + 100 * n)
        run.wait_ranks(4)
        kill(run, (3 + n) % 4)
        if pause is not None:
            time.sleep(pause)
            kill(run, n % 4)
    code, report, output = run.finish()
    assert code == 0, output
    assert len(report["generations"]) >= len(pauses) + 1
    assert all(g["kept"] >= 1 for g in report["generations"][1:]), report["generations"]
    assert "resuming at step" not in output, output
    assert weights(output) == weights_alone(tmp_path / "alone", 700)


def test_who_does_not_leave_in_time_is_replaced(tmp_path):
    run = Run(tmp_path, job(tmp_path))
    wait_step(tmp_path, 20)
    before = pids(run, 4)
    os.kill(before[2], signal.SIGSTOP)
    kill(run, 3)
    wait_until(lambda: len(found := ranks(run.mark)) == 4 and found[2][0] != before[2],
               "rank 2's next process", 60)
    assert pids(run, 4)[0] == before[0]
    code, report, output = run.finish()
    assert code == 0, output
    assert report["generations"][1]["kept"] == 2
    assert weights(output) == weights_alone(tmp_path / "alone", 600)


def test_where_nobody_survives_the_checkpoint_is_read(tmp_path):
    run = Run(tmp_path, job(tmp_path))
    wait_step(tmp_path, 120)
    for pid in pids(run, 4).values():
        os.kill(pid, signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    assert report["generations"][1].get("kept", 0) == 0
    assert "resuming at step" in output, output
    assert weights(output) == weights_alone(tmp_path / "alone", 600)


def test_a_stop_on_request_ends_ranks_that_outlived_a_generation(tmp_path):
    run = Run(tmp_path, job(tmp_path, steps=5000))
    wait_step(tmp_path, 20)
    kill(run, 1)
    wait_step(tmp_path, steps_of(tmp_path)[-1] + 20)
    run.process.send_signal(signal.SIGINT)
    code, _, output = run.finish()
    assert code != 0
    assert "stopped on request after step" in output, output


def test_what_cannot_be_done_in_place_is_refused(tmp_path):
    flags = ("--in-place", "--sync", "parameterserver")
    code, report, output = Run(tmp_path, job(tmp_path, flags=flags)).finish()
    assert code == 2, output
    assert len(report["generations"]) == 1
    assert "in place wants ranks that hold the whole state each" in output


def test_of_a_rank_that_stops_the_failure_says_in_which_operation_the_others_wait(tmp_path):
    run = Run(tmp_path, job(tmp_path, flags=("--collective-timeout", "4")))
    wait_step(tmp_path, 20)
    os.kill(ranks(run.mark)[2][0], signal.SIGSTOP)
    code, report, output = run.finish()
    assert code == 0, output
    failure = report["generations"][0]["failure"]
    assert re.fullmatch(r"rank \d on machine \d exited with code 75; ranks 0-1,3 are in \S+ \d+ .*"
                        r"of \d+ bytes", failure["message"]), report
    assert "rank 2 stopped answering" in failure["stderr"], report


def test_of_a_rank_that_dies_the_failure_says_in_which_operation_the_others_stood(tmp_path):
    run = Run(tmp_path, job(tmp_path))
    wait_step(tmp_path, 20)
    kill(run, 2)
    code, report, output = run.finish()
    assert code == 0, output
    assert re.fullmatch(r"rank 2 on machine 1 was killed by SIGKILL; ranks? [013,-]+ (is|are) in .*",
                        report["generations"][0]["failure"]["message"]), report
