"""The built-in trainer as a job: killed, stopped and scraped under `lockstep run`."""

import json
import os
import pathlib
import signal
import subprocess

import processes
from run import Run, pid_of, ranks
from tls import binary
from trainer_jobs import STEPS, job, wait_commits, weights, weights_alone
from waiting import wait_until


def test_job_with_two_killed_ranks_ends_with_weights_of_undisturbed_job(tmp_path):
    run = Run(tmp_path, job(tmp_path, steps=STEPS))
    wait_commits(tmp_path, 1)
    first = ranks(run.mark)
    os.kill(first[3][0], signal.SIGKILL)
    healed = run.wait_ranks(4, but_not_in=first[0][1])
    wait_until(lambda: list(tmp_path.glob(f"checkpoints/checkpoints/{healed[0][1]}/0*.*")),
               "a checkpoint of the next generation", 90)
    os.kill(healed[0][0], signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    failures = [generation["failure"] for generation in report["generations"]]
    assert [failure.get("rank") for failure in failures] == [3, 0, None], (failures, output)
    assert weights(output) == weights_alone()
    alone = tmp_path / "alone"
    alone.mkdir()
    code, _, output = Run(alone, job(alone, steps=STEPS)).finish()
    assert code == 0 and weights(output) == weights_alone(), output


def test_stopped_job_saves_its_step_and_next_run_resumes_from_that_step(tmp_path):
    run = Run(tmp_path, job(tmp_path, steps=STEPS, checkpointEvery=0))
    # Rank 0 makes it when it begins to train.
    wait_until(lambda: list(tmp_path.glob("checkpoints/tensorboard/*")), "the first step", 60)
    run.process.send_signal(signal.SIGINT)
    code, _, output = run.finish()
    assert code != 0
    assert "stopped on request after step" in output
    again = Run(tmp_path, job(tmp_path, steps=STEPS, checkpointEvery=0))
    code, _, output = again.finish()
    assert code == 0, output
    assert "resuming at step" in output
    assert weights(output) == weights_alone()


def test_job_with_missing_data_fails_at_once_and_names_the_data(tmp_path):
    code, report, output = Run(tmp_path, job(tmp_path, data=["/nonexistent/*.txt"])).finish()
    assert code == 2
    assert len(report["generations"]) == 1
    assert "/nonexistent/*.txt" in output


def test_the_plan_shows_the_command_that_each_rank_runs(tmp_path):
    plan = subprocess.run([binary("lockstep"), "plan", job(tmp_path)], capture_output=True,
                          text=True, check=True).stdout
    assert "lockstep-trainer job '{\"modelShape\":{\"layers\":2," in plan


def test_trainer_rejects_invalid_fields_of_job_written_by_hand():
    for trainer, message in [({"steps": -5}, "spec.trainer.steps: must lie between 1 and"),
                             ({"servers": [1]}, "spec.trainer.servers[0]: must lie between 0 and 0"),
                             ({"stepz": 5}, "stepz")]:
        done = subprocess.run([binary("lockstep-trainer"), "job",
                               json.dumps({"data": ["/nonexistent"], **trainer})],
                              capture_output=True, text=True)
        assert done.returncode == 2, done.stderr
        assert message in done.stderr


def test_pipelines_resume_from_disk_and_memory_and_keep_weights_of_one_rank(tmp_path):
    mesh = {"parallel": {"pipeline": 2}, "steps": STEPS}
    run = Run(tmp_path, job(tmp_path, **mesh))
    wait_commits(tmp_path, 1)
    os.kill(pid_of(run.mark, 3), signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    assert [each["failure"].get("rank") for each in report["generations"]] == [3, None], output
    assert weights(output) == weights_alone()
    # Rank 1 has a later stage of the machine that keeps the checkpoint.
    memory = tmp_path / "memory"
    memory.mkdir()
    run = Run(memory, "-v", job(memory, memoryEvery=5, checkpoint={"memory": {"size": "64Mi"}}, **mesh))
    first = run.wait_ranks(4)
    folder = pathlib.Path(processes.environment(first[0][0])["LOCKSTEP_SOCKET"]).parent
    wait_until(lambda: len(list(folder.glob("memory/1-1/0/0*.step-*"))) > 1, "checkpoints in memory", 90)
    os.kill(first[1][0], signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    assert "resuming at step" in output
    assert weights(output) == weights_alone()
