"""Ranks that share a model on GPUs: on the fakes of driver, NCCL and cuBLASLt, whose kernels are the
trainer's own, run thread by thread. However they share it, the bits are those of one that has all."""

import os
import pathlib
import signal

import pytest
from run import Run, pid_of
from tls import binary
from trainer import Trainer, train
from trainer_jobs import job, wait_commits, weights

FAKES = pathlib.Path(binary("lockstep-trainer")).parents[1] / "fake_nccl"
ON_FAKES = {"LD_LIBRARY_PATH": str(FAKES), "FAKE_ALIGNED": "1", "FAKE_SUMS": "nvls"}
GPL_2 = "/usr/share/common-licenses/GPL-2"


def model(**changes):
    options = {"layers": 2, "heads": 1, "width": 64, "vocabulary": 256, "sequence_length": 16,
               "global_batch_size": 4, "micro_batch_size": 1, "learning_rate": "1e-2",
               "device": "cuda", "tensorboard": "none", **changes}
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]


def mesh(folder, world, stages, *arguments, tensor=1, steps=2, **changes):
    return train(folder, f"--pipeline={stages}", f"--tensor={tensor}", *arguments, world=world,
                 steps=steps, model=model(**changes), environment=ON_FAKES)


def same(runs):
    return [len({told(run) for run in runs}) for told in (
        lambda run: run.weights,
        *(lambda run, name=name: tuple(record[name] for record in run.records)
          for name in ("loss", "gradient_norm")))] == [1, 1, 1]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_pipelines_end_with_the_weights_losses_and_norms_of_one_gpu(tmp_path, precision):
    runs = [mesh(tmp_path / f"{world}-{stages}", world, stages, "--validate-every=1", "--bucket-mb=1",
                 f"--validation-data={GPL_2}", "--validation-samples=3", "--compare-every=1",
                 layers=4, global_batch_size=8, precision=precision)
            for world, stages in [(1, 1), (2, 2), (4, 4), (4, 2)]]
    assert same(runs)
    assert len({run.records[-1]["validation_loss"] for run in runs}) == 1
    assert "cuda Stand-in GPU" in runs[-1].output and "mesh: 2 pipelines of 2 stages" in runs[-1].output
    assert "stage 1 of 2 (layers 2 to 3 and the head): GPU: " in runs[-1].output
    assert runs[-1].records[-1]["pipeline_wait_seconds"] > 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_ranks_that_share_layers_end_with_the_weights_losses_and_norms_of_one_gpu(tmp_path, precision):
    sizes = {"heads": 2, "width": 128, "global_batch_size": 2, "precision": precision}
    runs = [mesh(tmp_path / f"{world}-{stages}-{tensor}", world, stages, "--compare-every=1",
                 tensor=tensor, tensor_shards=2, **sizes)
            for world, stages, tensor in [(1, 1, 1), (2, 1, 2), (2, 2, 1), (4, 2, 2), (4, 1, 2)]]
    assert same(runs)
    assert "mesh: 1 pipelines of 2 stages of 2 ranks, 2 shards a layer" in runs[3].output
    whole = mesh(tmp_path / "whole", 1, 1, **sizes)
    assert whole.weights != runs[0].weights
    assert whole.losses == pytest.approx(runs[0].losses, rel=1e-6 if precision == "fp32" else 1e-2)


@pytest.mark.parametrize("batch", [1, 2])
def test_pipeline_with_fewer_micro_batches_than_stages_keeps_weights_of_one_gpu(tmp_path, batch):
    assert same([mesh(tmp_path / str(stages), stages, stages, layers=4, global_batch_size=batch)
                 for stages in (1, 4)])


def test_training_resumes_gpu_pipeline_checkpoint_at_other_meshes_and_on_cpus(tmp_path):
    folder = f"--checkpoint-dir={tmp_path / 'checkpoints'}"
    for number, (world, stages) in enumerate([(2, 2), (1, 1), (4, 2)]):
        last = mesh(tmp_path / str(number), world, stages, folder, steps=number + 1, decay_steps=4)
        assert number == 0 or f"resuming at step {number}" in last.output
    assert last.weights == mesh(tmp_path / "alone", 1, 1, steps=3, decay_steps=4).weights
    on_cpus = train(tmp_path / "cpus", folder, steps=4, model=model(device="cpu", decay_steps=4))
    assert "resuming at step 3" in on_cpus.output


def test_job_names_killed_pipeline_rank_and_ends_with_weights_of_one_gpu(tmp_path):
    options = {"modelShape": {"layers": 2, "heads": 1, "width": 64, "vocabulary": 256}, "sequenceLength": 16,
               "globalBatchSize": 4, "microBatchSize": 1, "device": "Cuda", "checkpointEvery": 4,
               "steps": 40, "machines": 1, "env": ON_FAKES}
    (tmp_path / "killed").mkdir()
    run = Run(tmp_path / "killed", job(tmp_path / "killed", parallel={"pipeline": 2}, **options))
    wait_commits(tmp_path / "killed", 1)
    os.kill(pid_of(run.mark, 1), signal.SIGKILL)
    code, report, output = run.finish()
    assert code == 0, output
    failures = [generation["failure"] for generation in report["generations"]]
    assert [failure.get("rank") for failure in failures] == [1, None], (failures, output)
    assert "mesh: 1 pipelines of 2 stages" in output
    alone = mesh(tmp_path / "alone", 1, 1, steps=40, learning_rate="1e-3")
    assert weights(output) == alone.weights


@pytest.mark.parametrize("cut, fault, codes", [
    ("pipeline", "LOST_AT=120", [75, 76]), ("pipeline", "HANG_AT=40", [75, 75]),
    ("tensor", "ERROR_AT=40", [75, 75])])
def test_rank_failure_in_a_step_ends_all_ranks_with_expected_exit_codes(tmp_path, cut, fault, codes):
    name, value = fault.split("=")
    small = model(heads=2, width=128, tensor_shards=2, global_batch_size=1)
    with Trainer(tmp_path, world=2, steps=100, model=small, environment=ON_FAKES,
                 arguments=[f"--{cut}=2", "--collective-timeout=6"],
                 environment_of={1: {f"FAKE_{name}": value}}) as made:
        assert made.start().wait() == codes, made.errors
        assert made.records, "it failed before its first step"


def test_sigterm_to_last_stage_makes_all_ranks_save_one_step_and_exit_with_143(tmp_path):
    arguments = ["--pipeline=2", "--checkpoint-every=0", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    with Trainer(tmp_path / "run", 2, arguments, model=model(), steps=5000, environment=ON_FAKES) as run:
        run.start().wait_step(2)
        run.kill(1, signal.SIGTERM)
        assert run.wait() == [143] * 2, run.errors
    assert len(list((tmp_path / "checkpoints").glob("step-*"))) == 1


def test_trainer_names_stage_that_lacks_memory_and_options_to_change(tmp_path):
    with Trainer(tmp_path, 2, ["--pipeline=2"], model=model(), environment=ON_FAKES,
                 environment_of={1: {"FAKE_MEMORY": "900000000"}}) as run:
        assert run.start().wait() == [75, 2], run.errors
        said = (tmp_path / "1.err").read_text()
        assert "rank 1, stage 1 of 2 (layer 1 and the head): GPU 1 has 900 MB, and this takes " in said
        assert "lower microBatchSize or sequenceLength, raise parallel.pipeline or tensor" in said
