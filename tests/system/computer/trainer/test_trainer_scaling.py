"""lockstep-trainer's scaling efficiency: what it is computed of, and no trace of it in training."""

import os
import re
import signal

import pytest
from run import Run, pid_of
from trainer import fails, options, train
from trainer_jobs import job, wait_commits, weights

LINE = re.compile(r"scaling efficiency ([\d.]+): (\d+) tokens/s a rank, (\d+) alone$", re.M)


def computed(records):
    """Tokens a second of a rank, as the records of its steps say."""
    steps = records[1:]
    return sum(record["tokens"] for record in steps) / \
        sum(record["step_seconds"] - record["checkpoint_seconds"] for record in steps)


@pytest.mark.parametrize("world, arguments", [
    (2, []), (4, ["--threads=2"]), (2, ["--sync=parameter-server"])], ids=["2", "4", "server"])
def test_trainer_reports_scaling_efficiency_without_changing_weights(tmp_path, world, arguments):
    plain = train(tmp_path / "plain", *arguments, world=world)
    run = train(tmp_path / "measured", *arguments, "--measure-scaling", world=world)
    assert run.weights == plain.weights
    assert run.losses == plain.losses
    efficiency, together, alone = map(float, LINE.search(run.output).groups())
    last = run.records[-1]
    assert together == pytest.approx(computed(run.records), abs=1)
    assert alone == pytest.approx(last["alone_tokens_per_second"], abs=1)
    assert last["scaling_efficiency"] == pytest.approx(computed(run.records) / last["alone_tokens_per_second"])
    assert efficiency == pytest.approx(last["scaling_efficiency"], abs=0.006)
    assert "scaling_efficiency" not in run.records[0]
    assert not LINE.search(plain.output) and "scaling_efficiency" not in plain.records[-1]


def test_scaling_efficiency_excludes_checkpoint_time(tmp_path):
    run = train(tmp_path, "--measure-scaling", "--checkpoint-every=2", f"--checkpoint-dir={tmp_path / 'ckpt'}",
                world=2)
    assert sum(record["checkpoint_seconds"] for record in run.records) > 0
    last = run.records[-1]
    assert last["scaling_efficiency"] == pytest.approx(computed(run.records) / last["alone_tokens_per_second"])


def test_run_of_one_rank_reports_no_scaling_efficiency(tmp_path):
    run = train(tmp_path, "--measure-scaling")
    assert not LINE.search(run.output) and "scaling_efficiency" not in run.records[-1]


def test_trainer_rejects_scaling_measurement_of_pipeline(tmp_path):
    code, errors = fails(tmp_path, "--measure-scaling", "--pipeline=2", model=options(layers=4), world=2)
    assert code == 2 and "cannot run alone: leave measureScaling out, or write" in errors


def test_job_with_killed_rank_keeps_weights_and_reports_scaling_efficiency(tmp_path):
    steps = 1000
    alone = tmp_path / "alone"
    alone.mkdir()
    code, report, expected = Run(alone, job(alone, steps=steps, machines=1, processes=1, measureScaling=True)).finish()
    assert code == 0, expected
    assert "scalingEfficiency" not in {each["name"] for each in report["progress"]["metrics"]}
    run = Run(tmp_path, job(tmp_path, steps=steps, measureScaling=True))
    wait_commits(tmp_path, 1)
    os.kill(pid_of(run.mark, 3), signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    assert len(report["generations"]) == 2
    assert weights(output) == weights(expected)
    [line] = LINE.findall(output)
    figures = {each["name"]: each["value"] for each in report["progress"]["metrics"]}
    assert float(figures["scalingEfficiency"]) == pytest.approx(float(line[0]), abs=0.006)
