"""`lockstep-trainer generate`: one prompt, and files of prompts that the ranks of a job share."""

import json
import subprocess

import pytest
from tls import binary
from trainer import Trainer, options, train


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    train(folder, f"--checkpoint-dir={folder / 'checkpoints'}", steps=30,
          model=options(learning_rate="1e-2"))
    return folder / "checkpoints"


def generate(folder, *arguments, world=1):
    with Trainer(folder, world, arguments, command="generate") as run:
        codes = run.start().wait()
        return codes, (folder / "0.out").read_bytes(), run.errors


def test_generate_continues_prompt_and_same_seed_gives_same_text(tmp_path, checkpoint):
    arguments = [f"--checkpoint-dir={checkpoint}", "--prompt=This License", "--tokens=64"]
    codes, first, errors = generate(tmp_path / "a", *arguments)
    assert codes == [0], errors
    assert first.startswith(b"This License")
    assert len(first) == len("This License") + 64 + 1
    assert generate(tmp_path / "b", *arguments)[1] == first
    assert generate(tmp_path / "c", *arguments, "--seed=2")[1] != first


def test_ranks_share_a_file_of_prompts_and_keep_its_order(tmp_path, checkpoint):
    prompts = [f"prompt {number} \u00e9" for number in range(7)]
    file = tmp_path / "prompts.txt"
    file.write_text("\n\n".join(prompts) + "\n")
    arguments = [f"--checkpoint-dir={checkpoint}", f"--prompts={file}", "--tokens=20"]
    codes, alone, errors = generate(tmp_path / "1", *arguments)
    assert codes == [0], errors
    assert [json.loads(line)["prompt"] for line in alone.splitlines()] == prompts
    assert generate(tmp_path / "3", *arguments, world=3)[:2] == ([0, 0, 0], alone)
    assert generate(tmp_path / "9", *arguments, world=9)[:2] == ([0] * 9, alone)


def test_generate_writes_more_tokens_than_the_context_holds(tmp_path, checkpoint):
    codes, said, errors = generate(tmp_path, f"--checkpoint-dir={checkpoint}", "--tokens=100",
                                   f"--prompt={'x' * 50}")
    assert codes == [0], errors
    assert len(said) == 151


def test_generate_writes_results_to_output_file(tmp_path, checkpoint):
    output = tmp_path / "results"
    codes, said, _ = generate(tmp_path / "run", f"--checkpoint-dir={checkpoint}", "--prompt=a",
                              f"--output={output}", "--json", "--tokens=3")
    assert (codes, said) == ([0], b"")
    assert json.loads(output.read_text())["prompt"] == "a"


@pytest.mark.parametrize("arguments, says", [
    (["--prompt=a"], "there is no checkpoint"),
    (["--prompt=a", "--checkpoint=/nonexistent"], "/nonexistent"),
    ([], "there is no prompt"),
    (["--prompts=/nonexistent/*"], "/nonexistent/*"),
], ids=["no model", "no such model", "no prompt", "no such file"])
def test_generate_names_missing_checkpoint_or_prompt(tmp_path, arguments, says):
    codes, _, errors = generate(tmp_path, *arguments)
    assert codes == [2]
    assert says in errors


def test_job_in_generate_mode_prints_results_in_order_of_prompts(tmp_path, checkpoint):
    file = tmp_path / "prompts.txt"
    file.write_text("one\ntwo\nthree\n")
    newest = sorted(checkpoint.glob("step-*"))[-1]
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "say"},
        "spec": {"numMachines": 2, "trainer": {"mode": "Generate", "prompts": [str(file)]},
                 "logs": {"console": "RankZero", "format": "Raw"},
                 "checkpoint": {"path": str(tmp_path / "work"), "resume": str(newest)}}}))
    said = subprocess.run([binary("lockstep"), "run", str(job)], capture_output=True, text=True,
                          check=False, timeout=120)
    assert said.returncode == 0, said.stdout + said.stderr
    lines = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    assert [line["prompt"] for line in lines] == ["one", "two", "three"]
