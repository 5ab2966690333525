"""lockstep-trainer on a mesh: however its ranks share layers, shards of layers and data, the bits are
those of one rank that has all."""

import json
import resource
import signal

import pytest
from trainer import Trainer, fails, newest_step, options, train
from waiting import wait_until

SHARDS = 8
CUTS = ["--pipeline=2", "--tensor=2", "--tensor=4"]


def model_of(shards, **changes):
    return options(layers=8, heads=8, tensor_shards=shards, **changes)


MODEL = model_of(SHARDS)


def mesh(folder, world, stages, tensor, *arguments, **changes):
    return train(folder, f"--pipeline={stages}", f"--tensor={tensor}", *arguments, world=world,
                 **{"model": MODEL, **changes})


@pytest.mark.parametrize("shards, count", [(1, 10), (SHARDS, 20)])
def test_every_mesh_of_1_2_4_and_8_ranks_ends_with_same_weights_losses_and_norms(
        tmp_path, shards, count):
    runs = {(world, stages, tensor):
            mesh(tmp_path / f"{world}-{stages}-{tensor}", world, stages, tensor, steps=3,
                 model=model_of(shards))
            for world in (1, 2, 4, 8) for stages in (1, 2, 4, 8) for tensor in (1, 2, 4, 8)
            if stages * tensor <= world and tensor <= shards}
    assert len(runs) == count
    alone = runs[1, 1, 1]
    assert {cut: run.weights for cut, run in runs.items()} == dict.fromkeys(runs, alone.weights)
    for name in ("loss", "gradient_norm", "learning_rate"):
        assert len({tuple(record[name] for record in run.records) for run in runs.values()}) == 1
    # By the second a straggler would be looked for.
    for name, of_a_mesh in (("pipeline_wait_seconds", True), ("collective_wait_seconds", False)):
        told = {cut: name in run.records[0] for cut, run in runs.items()}
        assert told == {cut: (cut[1] * cut[2] > 1) == of_a_mesh for cut in runs}


def test_number_of_shards_decides_weights_and_one_shard_equals_unsharded_model(tmp_path):
    of = {shards: mesh(tmp_path / str(shards), 2, 1, min(shards, 2), steps=3, model=model_of(shards))
          for shards in (1, 4, SHARDS)}
    assert len({run.weights for run in of.values()}) == 3
    assert of[4].losses == pytest.approx(of[SHARDS].losses, rel=1e-4)
    whole = train(tmp_path / "whole", model=options(layers=8, heads=8), steps=3)
    assert of[1].weights == whole.weights


@pytest.mark.parametrize("arguments", [
    ["--bucket-mb=1"], ["--overlap=off"], ["--compare-every=1"], ["--threads=3"]],
    ids=lambda each: each[0][2:])
def test_weights_of_mesh_do_not_depend_on_option(tmp_path, arguments):
    # Stages of unlike size, whose gradients are several buckets.
    model = options(layers=2, heads=4, width=128, tensor_shards=4)
    alone = train(tmp_path / "alone", steps=3, model=model)
    assert mesh(tmp_path / "mesh", 8, 2, 2, *arguments, steps=3, model=model).weights == alone.weights


def test_training_resumes_checkpoint_of_one_mesh_at_another_mesh(tmp_path):
    checkpoints = ["--checkpoint-every=4", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    model = model_of(SHARDS, decay_steps=20)
    for number, cut in enumerate([(4, 1, 4), (1, 1, 1), (8, 2, 2), (4, 4, 1), (2, 1, 1)]):
        steps = 4 * number + 4
        last = mesh(tmp_path / str(number), *cut, *checkpoints, steps=steps, data=None, model=model)
        run = json.loads((tmp_path / f"checkpoints/step-{steps:08}/manifest.json").read_text())["run"]
        assert (run["world"], run["pipeline"], run["tensor"], run["tensorShards"]) == (*cut, SHARDS)
    assert last.weights == mesh(tmp_path / "alone", 1, 1, 1, steps=20, model=model).weights


def test_run_resumes_checkpoint_with_other_shard_count_and_warns(tmp_path):
    """Trained on by a rank without shards, whose first loss is what the shards' next would have been."""
    checkpoints = f"--checkpoint-dir={tmp_path / 'checkpoints'}"
    model = model_of(SHARDS, decay_steps=16)
    mesh(tmp_path / "4", 4, 1, 4, checkpoints, steps=4, model=model)
    whole = mesh(tmp_path / "whole", 1, 1, 1, checkpoints, steps=5, model=model_of(1, decay_steps=16))
    assert "was written with tensorShards 8, this run has 1" in whole.errors
    straight = mesh(tmp_path / "straight", 1, 1, 1, steps=5, model=model)
    assert whole.losses[-1] == pytest.approx(straight.losses[-1], rel=1e-4)


@pytest.mark.parametrize("cut, killed", [
    ("--pipeline=2", 0), ("--pipeline=2", 3), ("--tensor=2", 0), ("--tensor=2", 1)])
def test_killed_rank_ends_all_ranks_and_resumed_run_has_undisturbed_weights(tmp_path, cut, killed):
    checkpoints = [cut, "--checkpoint-every=5", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    model = model_of(SHARDS, decay_steps=100)
    with Trainer(tmp_path / "killed", 4, checkpoints, model=model, steps=100_000) as run:
        run.start().wait_step(12)
        run.kill(killed)
        codes = run.wait()
        assert codes == [-signal.SIGKILL if rank == killed else 75 for rank in range(4)], run.errors
        assert f"rank {killed}" in run.errors
    steps = newest_step(tmp_path / "checkpoints") + 10
    last = train(tmp_path / "last", *checkpoints, world=4, model=model, steps=steps)
    assert "resuming at step " in last.output
    assert last.weights == train(tmp_path / "alone", model=model, steps=steps).weights


@pytest.mark.parametrize("cut", CUTS)
def test_sigterm_to_last_rank_makes_all_ranks_save_one_step_and_exit_with_143(tmp_path, cut):
    arguments = [cut, "--checkpoint-every=0", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    with Trainer(tmp_path / "first", 4, arguments, model=MODEL, steps=5000) as run:
        run.start().wait_step(3)
        run.kill(3, signal.SIGTERM)
        assert run.wait() == [143] * 4, run.errors
    assert len(list((tmp_path / "checkpoints").glob("step-*"))) == 1


@pytest.mark.parametrize("cut", CUTS)
def test_peers_exit_with_75_and_name_the_hung_rank(tmp_path, cut):
    arguments = [cut, "--collective-timeout=5", "--checkpoint-every=0"]
    with Trainer(tmp_path, 4, arguments, steps=100_000, model=MODEL) as run:
        run.start().wait_step(3)
        run.kill(3, signal.SIGSTOP)
        wait_until(lambda: all(run.processes[rank].poll() == 75 for rank in range(3)), lambda: run.errors)
        assert "rank 3" in (tmp_path / "0.err").read_text()


@pytest.mark.parametrize("world, arguments, says", [
    (3, {"pipeline": 2}, "a world of 3 processes cannot be divided into pipelines of 2 stages: run it with a multiple of 2"),
    (3, {"pipeline": 3}, "8 layers cannot be divided evenly among 3 stages; parallel.pipeline may be 1, 2, 4, 8"),
    (6, {"pipeline": 2}, "run it with 2, 4, 8, 16 processes"),
    (2, {"pipeline": 2, "sync": "parameter-server"}, "a parameter server serves whole models"),
    (2, {"pipeline": 2, "reduce": "ring"}, "write reduce Tree"),
    (3, {"tensor": 2, "tensor_shards": 2},
     "a world of 3 processes cannot be divided into pipelines of 1 stages of 2 ranks: run it with a multiple of 2"),
    (2, {"tensor": 2}, "1 shard of a layer cannot be divided evenly among 2 ranks; parallel.tensor may be 1, "
                       "or more with a larger parallel.tensorShards"),
    (1, {"tensor_shards": 16}, "8 heads cannot be divided into 16 shards that are summed as a tree; "
                               "parallel.tensorShards may be 1, 2, 4, 8"),
    (6, {"tensor": 2, "tensor_shards": 2}, "in pipelines of 2; run it with 2, 4, 8, 16 processes"),
    (1, {"tensor_shards": 2, "sync": "parameter-server"}, "a parameter server serves whole models"),
    (1, {"tensor_shards": 2, "reduce": "ring"}, "write reduce Tree"),
], ids=str)
def test_trainer_rejects_impossible_mesh_and_names_the_reason(tmp_path, world, arguments, says):
    code, said = fails(tmp_path, world=world, model=options(layers=8, heads=8, **arguments))
    assert code == 2, said
    assert says in said


def test_trainer_names_stage_that_lacks_memory_and_options_to_change(tmp_path):
    with Trainer(tmp_path, 2, ["--pipeline=2"], model=options(width=1024, vocabulary=100_000)) as run:
        def little_at_rank_1():
            if len(run.processes) == 1:
                resource.setrlimit(resource.RLIMIT_AS, (768 << 20, 768 << 20))

        run.preexec = little_at_rank_1
        assert run.start().wait() == [75, 2], run.errors
        said = (tmp_path / "1.err").read_text()
        assert "rank 1, stage 1 of 2 (layer 1 and the head), does not get its memory, " in said
        assert "lower microBatchSize or sequenceLength, or raise parallel.pipeline or tensor" in said


@pytest.mark.parametrize("tensor, pipelines, shards", [
    (1, "2 pipelines of 2 stages", ["", ""]),
    (2, "1 pipelines of 2 stages of 2 ranks, 8 shards a layer",
     [", shards 0 to 3 of 8", ", shards 4 to 7 of 8"])])
def test_trainer_reports_layers_and_shards_of_each_stage(tmp_path, tensor, pipelines, shards):
    model = model_of(SHARDS if tensor > 1 else 1)
    output = mesh(tmp_path, 4, 2, tensor, steps=1, model=model).output
    assert f"mesh: {pipelines}" in output
    assert f"stage 0 of 2 (the embeddings, layers 0 to 3){shards[0]}: " in output
    assert f"stage 1 of 2 (layers 4 to 7 and the head){shards[1]}: " in output
