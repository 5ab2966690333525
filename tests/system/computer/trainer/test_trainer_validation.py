"""lockstep-trainer's validation: one loss whatever the world, and no trace of it in training."""

import math
import os
import pathlib
import re
import signal

import pytest
from run import Run, pid_of
from trainer import Trainer, fails, newest_step, options, train
from trainer_jobs import job, wait_commits, weights

BF16 = "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
HELD_OUT = "/usr/share/common-licenses/Apache-2.0"
MODEL = options(layers=4)
EVERY_3 = [f"--validation-data={HELD_OUT}", "--validate-every=3", "--validation-samples=40"]


def validations(run):
    """What was told of each validation: (step, loss, perplexity)."""
    return [(record["step"], record["validation_loss"], record["validation_perplexity"])
            for record in run.records if "validation_loss" in record]


def said(output):
    """The steps that the log names, in order."""
    return [int(step) for step in re.findall(r"^validation after step (\d+): loss ", output, re.M)]


def test_every_mesh_reports_same_validation_losses_and_keeps_training_unchanged(tmp_path):
    plain = train(tmp_path / "plain", model=MODEL)
    runs = [train(tmp_path / f"{world}-{stages}", *EVERY_3, f"--pipeline={stages}", model=MODEL, world=world)
            for world, stages in [(1, 1), (2, 1), (4, 1), (4, 2), (4, 4)]]
    assert len({tuple(validations(run)) for run in runs}) == 1
    steps, losses, perplexities = zip(*validations(runs[0]))
    assert steps == (3, 6, 8)
    assert losses[2] < losses[0]
    assert perplexities == pytest.approx([math.exp(loss) for loss in losses])
    assert {run.weights for run in runs} == {plain.weights}
    for name in ("loss", "gradient_norm"):
        assert {tuple(record[name] for record in run.records) for run in runs} == \
            {tuple(record[name] for record in plain.records)}
    # Micro-batches are of one sequence.
    assert said(runs[0].output) == [3, 6, 8] and "(40 sequences, " in runs[0].output


def test_world_of_3_with_uneven_micro_batches_reports_almost_same_loss(tmp_path):
    # 40 micro-batches on 3 ranks, whose training differs in the last places.
    model = options(global_batch_size=12, micro_batch_size=1)
    runs = [train(tmp_path / str(world), *EVERY_3, model=model, world=world, steps=3) for world in (1, 3)]
    assert validations(runs[1])[0][1] == pytest.approx(validations(runs[0])[0][1], abs=1e-5)


def test_trainer_validates_once_at_the_end_by_default(tmp_path):
    run = train(tmp_path, f"--validation-data={HELD_OUT}")
    assert [step for step, _, _ in validations(run)] == [8] == said(run.output)
    assert run.records[-1]["validation_seconds"] > 0


@pytest.mark.parametrize("argument", [
    "--sync=parameter-server",
    pytest.param("--precision=bf16", marks=pytest.mark.skipif(not BF16, reason="this CPU has no AVX512_BF16"))])
def test_validation_does_not_change_weights_with_option(tmp_path, argument):
    plain = train(tmp_path / "plain", argument, world=2)
    assert train(tmp_path / "validated", argument, *EVERY_3, world=2).weights == plain.weights


def test_killed_and_resumed_run_reports_same_validation_losses(tmp_path):
    every_5 = [f"--validation-data={HELD_OUT}", "--validate-every=5", "--validation-samples=8",
               "--decay-steps=400"]
    checkpoints = [*every_5, "--checkpoint-every=5", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    told = []
    with Trainer(tmp_path / "killed", 4, checkpoints, steps=100_000) as run:
        run.start().wait_step(12)
        run.kill(3)
        assert run.wait()[-1] == -signal.SIGKILL
        told += validations(run)
    steps = newest_step(tmp_path / "checkpoints") + 50
    last = train(tmp_path / "last", *checkpoints, world=2, steps=steps)
    resumed = int(re.search(r"resuming at step (\d+)", last.output)[1])
    assert resumed % 5 == 0
    alone = train(tmp_path / "alone", *every_5, steps=steps)
    again = validations(last)
    # The step that it goes on from was validated before it was saved.
    assert again[0][0] == resumed + 5
    assert [each for each in told if each[0] <= resumed] + again == validations(alone)
    assert last.weights == alone.weights


def test_next_run_does_validation_skipped_by_a_stop_exactly_once(tmp_path):
    arguments = [f"--validation-data={HELD_OUT}", "--validate-every=1", "--validation-samples=8",
                 "--checkpoint-every=0", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    with Trainer(tmp_path / "first", world=2, arguments=arguments, steps=100_000) as run:
        run.start().wait_step(5)
        run.kill(1, signal.SIGTERM)
        assert run.wait() == [143, 143], run.errors
        first = [step for step, _, _ in validations(run)]
        stopped = int(re.search(r"stopped on request after step (\d+)", run.output)[1])
    assert first == list(range(1, stopped))
    second = train(tmp_path / "second", *arguments, world=2, steps=stopped + 2)
    assert [step for step, _, _ in validations(second)] == [stopped, stopped + 1, stopped + 2]
    third = train(tmp_path / "third", *arguments, world=2, steps=stopped + 2)
    assert said(third.output) == []
    assert third.weights == second.weights


def test_trainer_validates_finished_run_on_data_given_later(tmp_path):
    checkpoints = [f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    done = train(tmp_path / "first", *checkpoints)
    again = train(tmp_path / "second", *checkpoints, *EVERY_3)
    assert said(again.output) == [8] and again.weights == done.weights
    assert [record["step"] for record in again.records] == [8]


@pytest.mark.parametrize("data, model, says", [
    ("/nonexistent.txt", MODEL, "validationData: nothing matches /nonexistent.txt"),
    ("short", MODEL, "32 tokens hold 0 sequences of 32 tokens, but a micro-batch takes 1"),
    ("foreign", options(vocabulary=128), "foreign: token 40 is 200, but the model's vocabulary is 128"),
], ids=["missing", "short", "foreign"])
def test_trainer_rejects_unusable_validation_data_before_training(tmp_path, data, model, says):
    texts = tmp_path / "texts"
    texts.write_bytes(b"a text to train on, " * 200)
    (tmp_path / "short").write_bytes(b"x" * 32)
    (tmp_path / "foreign").write_bytes(b"x" * 40 + b"\xc8" + b"x" * 60)
    name = data if data.startswith("/") else tmp_path / data
    code, errors = fails(tmp_path / "run", f"--validation-data={name}", model=model, world=2, data=[texts])
    assert code == 2, errors
    assert says in errors
    assert not (tmp_path / "run/metrics.jsonl").exists()


def test_trainer_warns_of_validation_data_that_is_also_training_data(tmp_path):
    assert f"{HELD_OUT} is also in the training data" in train(
        tmp_path / "both", f"--validation-data={HELD_OUT}", data=["/usr/share/common-licenses/A*"], steps=1).errors
    assert "in the training data" not in train(tmp_path / "apart", f"--validation-data={HELD_OUT}", steps=1).errors


def test_job_with_killed_rank_reports_same_validation_losses(tmp_path):
    steps = 600
    held_out = {"validationData": [HELD_OUT], "validateEvery": 75, "validationSamples": 8}

    def losses(output):
        return dict(re.findall(r"validation after step (\d+): (loss \S+, perplexity \S+)", output))

    alone = tmp_path / "alone"
    alone.mkdir()
    code, _, expected = Run(alone, job(alone, steps=steps, machines=1, processes=1, **held_out)).finish()
    assert code == 0, expected
    run = Run(tmp_path, job(tmp_path, steps=steps, **held_out))
    wait_commits(tmp_path, 1)
    os.kill(pid_of(run.mark, 3), signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    assert len(report["generations"]) == 2
    assert losses(output) == losses(expected) and len(losses(output)) == 8
    assert weights(output) == weights(expected)
