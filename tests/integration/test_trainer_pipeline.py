"""lockstep-trainer as a pipeline: however its ranks share the layers, the bits are those of one rank."""

import json
import resource
import signal

import pytest
from trainer import Trainer, fails, options, train
from waiting import wait_until

MODEL = options(layers=8)


def pipeline(stages):
    return f"--pipeline={stages}"


def mesh(folder, world, stages, *arguments, **changes):
    return train(folder, pipeline(stages), *arguments, world=world, **{"model": MODEL, **changes})


def test_every_factorisation_of_1_2_4_and_8_ends_with_the_same_weights_losses_and_norms(tmp_path):
    runs = {(world, stages): mesh(tmp_path / f"{world}-{stages}", world, stages, steps=4)
            for world in (1, 2, 4, 8) for stages in (1, 2, 4, 8) if stages <= world}
    assert {cut: run.weights for cut, run in runs.items()} == dict.fromkeys(runs, runs[1, 1].weights)
    for name in ("loss", "gradient_norm", "learning_rate"):
        assert len({tuple(record[name] for record in run.records) for run in runs.values()}) == 1
    assert len(runs[1, 1].losses) == 4
    # By which a straggler would be looked for.
    told = {cut: "collective_wait_seconds" in run.records[0] for cut, run in runs.items()}
    assert told == {(world, stages): stages == 1 for world, stages in runs}


@pytest.mark.parametrize("arguments", [
    ["--bucket-mb=1"], ["--overlap=off"], ["--compare-every=1"]], ids=lambda each: each[0][2:])
def test_the_weights_of_pipelines_do_not_depend_on(tmp_path, arguments):
    # Stages of unlike size, whose gradients are several buckets.
    model = options(width=128)
    alone = train(tmp_path / "alone", steps=4, model=model)
    assert mesh(tmp_path / "mesh", 4, 2, *arguments, steps=4, model=model).weights == alone.weights


def test_a_checkpoint_of_any_factorisation_is_gone_on_from_at_another(tmp_path):
    checkpoints = ["--checkpoint-every=4", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    for number, (world, stages, steps) in enumerate([(4, 2, 4), (1, 1, 8), (4, 4, 12), (2, 1, 16)]):
        last = mesh(tmp_path / str(number), world, stages, *checkpoints, steps=steps, data=None,
                    model=[*MODEL, "--decay-steps=16"])
        manifest = tmp_path / f"checkpoints/step-{steps:08}/manifest.json"
        assert json.loads(manifest.read_text())["run"]["pipeline"] == stages
    alone = mesh(tmp_path / "alone", 1, 1, steps=16, model=[*MODEL, "--decay-steps=16"])
    assert last.weights == alone.weights


@pytest.mark.parametrize("killed", [0, 1, 3])
def test_the_death_of_any_stage_ends_all_ranks_and_is_made_good_to_the_bit(tmp_path, killed):
    checkpoints = [pipeline(2), "--checkpoint-every=5", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    with Trainer(tmp_path / "killed", 4, checkpoints, model=MODEL, steps=200) as run:
        run.start().wait_step(12)
        run.kill(killed)
        codes = run.wait()
        assert codes == [-signal.SIGKILL if rank == killed else 75 for rank in range(4)], run.errors
        assert f"rank {killed}" in run.errors
    last = train(tmp_path / "last", *checkpoints, world=4, model=MODEL, steps=200)
    assert "resuming at step " in last.output
    assert last.weights == train(tmp_path / "alone", model=MODEL, steps=200).weights


def test_sigterm_at_a_later_stage_makes_all_save_one_step_and_leave_with_143(tmp_path):
    arguments = [pipeline(2), "--checkpoint-every=0", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    with Trainer(tmp_path / "first", 4, arguments, model=MODEL, steps=5000) as run:
        run.start().wait_step(3)
        run.kill(3, signal.SIGTERM)
        assert run.wait() == [143] * 4, run.errors
    assert len(list((tmp_path / "checkpoints").glob("step-*"))) == 1


@pytest.mark.parametrize("world, arguments, says", [
    (3, {"pipeline": 2}, "a world of 3 processes can't be cut into pipelines of 2 stages: run it with a multiple of 2"),
    (3, {"pipeline": 3}, "8 layers can't be dealt out evenly to 3 stages; parallel.pipeline may be 1, 2, 4, 8"),
    (6, {"pipeline": 2}, "run it with 2, 4, 8, 16 processes"),
    (2, {"pipeline": 2, "sync": "parameter-server"}, "a parameter server serves whole models"),
    (2, {"pipeline": 2, "reduce": "ring"}, "write reduce Tree"),
    (2, {"pipeline": 2, "device": "cuda"}, "compute on CPUs"),
], ids=str)
def test_a_mesh_that_cannot_be_is_refused_with_what_could(tmp_path, world, arguments, says):
    code, said = fails(tmp_path, world=world, model=options(layers=8, **arguments))
    assert code == 2, said
    assert says in said


def test_a_stage_that_gets_no_memory_is_named_with_what_to_lower(tmp_path):
    with Trainer(tmp_path, 2, [pipeline(2)], model=options(width=1024, vocabulary=100_000)) as run:
        def little_at_rank_1():
            if len(run.processes) == 1:
                resource.setrlimit(resource.RLIMIT_AS, (768 << 20, 768 << 20))

        run.preexec = little_at_rank_1
        assert run.start().wait() == [75, 2], run.errors
        said = (tmp_path / "1.err").read_text()
        assert "rank 1, stage 1 of 2 (layer 1 and the head), does not get its memory, " in said
        assert "lower microBatchSize or sequenceLength, or raise parallel.pipeline or tensor" in said


def test_what_each_stage_holds_is_said_before_it_is_taken(tmp_path):
    output = mesh(tmp_path, 4, 2, steps=1).output
    assert "mesh: 2 pipelines of 2 stages" in output
    assert "stage 0 of 2 (the embeddings, layers 0 to 3): " in output
    assert "stage 1 of 2 (layers 4 to 7 and the head): " in output


def test_a_stage_that_hangs_is_named(tmp_path):
    arguments = [pipeline(2), "--collective-timeout=5", "--checkpoint-every=0"]
    with Trainer(tmp_path, 4, arguments, steps=100_000, model=MODEL) as run:
        run.start().wait_step(3)
        run.kill(3, signal.SIGSTOP)
        wait_until(lambda: all(run.processes[rank].poll() == 75 for rank in range(3)), lambda: run.errors)
        assert "rank 3" in (tmp_path / "0.err").read_text()
