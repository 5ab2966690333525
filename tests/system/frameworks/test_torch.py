"""Programs of FSDP2, the Hugging Face Trainer, TRL, DeepSpeed, Lightning, Horovod and one with Megatron-LM's
groups, as the examples have them, one of megatron-core, and torchrun: PyTorch's own processes find each
other, and go on where a killed one left off."""

import json
import os
import pathlib
import re
import signal

import processes
import pytest
from run import MARK, Run
from run_output import Output
from safetensors.torch import load_file
from waiting import wait_until

PROGRAMS = pathlib.Path(__file__).parent / "programs"
WEIGHTS = r"weights: sha256 [0-9a-f]{64}"
STEPS = ["--steps=60", "--checkpoint-every=10"]
SLOWER = "--seconds-per-step=0.2"
# Those whose program is not the example's own.
INSTEAD = {"megatron-core": "megatron_gpt.py"}
# The example's file, its further arguments, with where it leaves its weights, and what its ranks say.
EXAMPLES = {
    "fsdp2": ("fsdp2.yaml", [*STEPS, "--weights=FOLDER/weights"], ["FSDP2 on 4 ranks"]),
    "deepspeed": ("deepspeed.yaml", [*STEPS, "--weights=FOLDER/weights"],
                  ["ZeRO stage 2 on 4 ranks"]),
    "deepspeed-1": ("deepspeed.yaml", [*STEPS, "--stage=1", "--weights=FOLDER/weights"],
                    ["ZeRO stage 1 on 4 ranks"]),
    "lightning": ("lightning.yaml", ["--epochs=6", "--weights=FOLDER/weights"],
                  ["TorchElasticEnvironment: training from step 0 on 4 ranks"]),
    "megatron": ("megatron.yaml", [*STEPS, "--weights=FOLDER/weights"],
                 [f"part {part} of 2, replica {replica} of 2"
                  for part in range(2) for replica in range(2)]),
    "megatron-core": ("megatron.yaml", [*STEPS, "--weights=FOLDER/weights"],
                      [f"part {part} of 2, replica {replica} of 2"
                       for part in range(2) for replica in range(2)]),
    "horovod": ("horovod.yaml", [*STEPS, "--weights=FOLDER/weights"],
                [f"rank {rank} of 4, {rank % 2} of 2 here: the sum of all ranks is 6"
                 for rank in range(4)]),
}


@pytest.fixture
def variables():
    """DeepSpeed compiles an extension, which takes minutes: one for all tests and runs of them."""
    folder = pathlib.Path.home() / ".cache/lockstep/frameworks/torch-extensions"
    return {"TORCH_EXTENSIONS_DIR": str(folder), "DS_ACCELERATOR": "cpu"}


def committed(run):
    return list((run.folder / "checkpoints/checkpoints").glob("*/0*.*-*"))


def process_of(run, rank):
    """The process of a rank itself, none that it started, such as a compiler."""
    def is_of_rank(pid):
        return processes.environment(pid).get("RANK") == str(rank)

    found = filter(is_of_rank, processes.with_variable(MARK, run.mark))
    return next(pid for pid in found if not is_of_rank(processes.parent(pid)))


def kill_after_a_checkpoint(run, rank):
    wait_until(lambda: committed(run), "a checkpoint", patience=300)
    os.kill(process_of(run, rank), signal.SIGKILL)


def weights(folder):
    """What the run left, by its files' names."""
    left = folder / "weights"
    files = left.iterdir() if left.is_dir() else [left]
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize("name", EXAMPLES)
def test_job_names_killed_rank_and_ends_with_same_weights(
        name, python_with, example, variables):
    file, arguments, said = EXAMPLES[name]
    python, options = python_with("torch"), {"variables": variables, "program": INSTEAD.get(name)}
    whole = example(python, file, "whole", *arguments, **options)
    code, _, output = whole.finish(400)
    assert code == 0, output
    for words in said:
        assert words in output, output

    run = example(python, file, "killed", *arguments, SLOWER, **options)
    kill_after_a_checkpoint(run, 2)
    code, report, output = run.finish(400)
    assert code == 0, output
    assert "rank 2 on machine 1 was killed by SIGKILL" in output, output
    assert len(report["generations"]) == 2, output
    assert output.count("training from step 0") < output.count("training from step"), output
    assert weights(run.folder) == weights(whole.folder), output


@pytest.mark.parametrize("file", ["hf-finetune.yaml", "trl-sft.yaml"])
def test_hugging_face_example_resumes_from_its_commit_with_same_model_but_for_last_bits(file, python_with, example):
    python, arguments = python_with("torch"), ["--steps=60", "--save-steps=10", "--output=FOLDER/weights"]
    whole = example(python, file, "whole", *arguments)
    code, report, output = whole.finish(400)
    assert code == 0, output
    assert "training from step 0" in output and "trained to step 60" in output
    assert report["progress"]["step"] == 60

    run = example(python, file, "killed", *arguments)
    kill_after_a_checkpoint(run, 2)
    code, report, output = run.finish(400)
    assert code == 0, output
    assert "rank 2 on machine 1 was killed by SIGKILL" in output, output
    assert len(report["generations"]) == 2, output
    assert re.search(rf"training from {re.escape(str(run.folder))}/checkpoints/\S+\.checkpoint-\d+", output), output
    one, other = (load_file(folder / "weights/model.safetensors") for folder in (whole.folder, run.folder))
    assert one.keys() == other.keys()
    # The last ten steps change them by 7e-4, and another order of sums by 3e-7.
    assert max((one[name] - other[name]).abs().max() for name in one) < 1e-5, output


def test_trl_example_trains_a_model_of_a_folder_with_its_tokenizer(python_with, example):
    python, arguments = python_with("torch"), ["--steps=2", "--output=FOLDER/weights"]
    first = example(python, "trl-sft.yaml", "first", *arguments)
    code, _, output = first.finish(400)
    assert code == 0, output
    second = example(python, "trl-sft.yaml", "second", *arguments, f"--model={first.folder / 'weights'}")
    code, _, output = second.finish(400)
    assert code == 0, output
    assert weights(second.folder)["tokenizer.json"] == weights(first.folder)["tokenizer.json"]
    assert weights(second.folder)["model.safetensors"] != weights(first.folder)["model.safetensors"]


@pytest.mark.parametrize("sharding", ["fsdp", "zero1", "zero2"])
def test_hugging_face_trainer_resumes_shards_from_memory_with_same_weights(
        sharding, python_with, tmp_path, variables):
    def start(name, seconds):
        folder = tmp_path / name
        folder.mkdir()
        job = folder / "job.yaml"
        job.write_text(json.dumps({
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "shards"},
            "spec": {"numMachines": 2, "processesPerMachine": 1, "framework": "Torch",
                     "command": [python_with("torch"), str(PROGRAMS / "hf_sharded.py"), sharding, "20", seconds],
                     "checkpoint": {"path": str(folder / "checkpoints"), "memory": {"size": "256Mi"}}}}))
        return Run(folder, str(job), "--no-table", variables=variables)

    code, _, output = start("whole", "0").finish(600)
    assert code == 0, output
    whole = re.search(WEIGHTS, output)[0]

    run = start("killed", "0.5")
    said = Output(run)
    try:
        said.wait(r"step 8 is done", "a checkpoint and some steps more", 600)
        os.kill(process_of(run, 1), signal.SIGKILL)
        run.process.wait(600)
    finally:
        run.process.kill()
        output = said.join()
    assert run.process.returncode == 0, output
    resumed = re.findall(r"resumes from (.*)", output)
    assert resumed[:2] == ["None", "None"] and len(resumed) == 4, output
    for folder in resumed[2:]:
        assert folder.endswith("checkpoint-5") and not folder.startswith(str(run.folder)), "in memory"
    assert re.search(WEIGHTS, output)[0] == whole, output


def test_torchrun_job_restarts_after_killed_process_and_ends_with_same_weights(
        python_with, example):
    python, options = python_with("torch"), [*STEPS, "--weights=FOLDER/weights"]
    whole = example(python, "torch-ddp.yaml", "whole", *options)
    code, _, output = whole.finish(400)
    assert code == 0, output

    run = example(python, "torch-ddp.yaml", "killed", *options, SLOWER,
                  launcher="torch.distributed.run")
    kill_after_a_checkpoint(run, 2)
    code, report, output = run.finish(400)
    assert code == 0, output
    assert len(report["generations"]) == 2, output
    assert weights(run.folder) == weights(whole.folder), output
