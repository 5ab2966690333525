"""lockstep-trainer as a user's ranks run it: the same bits at any world, after any failure."""

import pathlib
import resource
import signal
import struct

import pytest
from trainer import Trainer, fails, newest_step, options, train
from waiting import wait_until

BF16 = "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()


# ---- the same bits ----


def test_worlds_of_1_2_4_and_8_end_with_the_same_weights_and_losses(tmp_path):
    runs = [train(tmp_path / str(world), world=world) for world in (1, 2, 4, 8)]
    assert len({run.weights for run in runs}) == 1
    assert len({tuple(run.losses) for run in runs}) == 1
    assert len(runs[0].losses) == 8
    assert runs[0].losses[-1] < runs[0].losses[0]


@pytest.mark.parametrize("arguments", [
    ["--overlap=off"], ["--bucket-mb=1"], ["--compare-every=1"]], ids=lambda a: a[0][2:])
def test_weights_do_not_depend_on_option(tmp_path, arguments):
    # Larger than the first bucket of 1 MiB.
    model = options(width=128)
    plain = train(tmp_path / "plain", world=2, steps=4, model=model)
    other = train(tmp_path / "other", *arguments, world=2, steps=4, model=model)
    assert plain.weights == other.weights


def test_the_weights_do_not_depend_on_the_number_of_threads(tmp_path):
    assert len({train(tmp_path / str(n), threads=n).weights for n in (1, 2, 3)}) == 1


def test_world_of_3_ranks_has_almost_the_same_losses_as_one_rank(tmp_path):
    model = options(global_batch_size=12, micro_batch_size=2)
    alone = train(tmp_path / "1", model=model)
    three = train(tmp_path / "3", model=model, world=3)
    assert three.losses == pytest.approx(alone.losses, abs=1e-5)


@pytest.mark.slow
def test_gloo_ring_has_almost_the_same_losses_as_tree(tmp_path):
    tree = train(tmp_path / "tree", world=4, steps=200)
    ring = train(tmp_path / "ring", "--reduce=ring", world=4, steps=200)
    # Sums in another order, 200 steps long: how much that is depends on the CPU's instructions.
    assert ring.losses == pytest.approx(tree.losses, abs=1e-4)


@pytest.mark.parametrize("servers", [[0], [1, 3]], ids=str)
def test_two_runs_with_parameter_servers_end_with_the_same_weights(tmp_path, servers):
    arguments = ["--sync=parameter-server", *(f"--server={rank}" for rank in servers)]
    first, second = (train(tmp_path / name, *arguments, world=4) for name in "ab")
    assert first.weights == second.weights
    assert first.losses == pytest.approx(train(tmp_path / "c", world=4).losses, abs=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(not BF16, reason="this CPU has no AVX512_BF16")
def test_bf16_training_reaches_almost_the_same_loss_as_fp32(tmp_path):
    def last(run):
        return sum(run.losses[-20:]) / 20

    fp32 = train(tmp_path / "fp32", steps=200, threads=2)
    bf16 = train(tmp_path / "bf16", "--precision=bf16", steps=200, threads=2)
    assert last(bf16) == pytest.approx(last(fp32), abs=0.05)


# ---- after failures ----


def test_run_killed_and_resumed_at_other_worlds_ends_with_undisturbed_weights(tmp_path):
    decay = "--decay-steps=400"
    checkpoints = [decay, "--checkpoint-every=5", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    for number, (world, until) in enumerate([(4, 12), (2, 22)]):
        with Trainer(tmp_path / f"killed{number}", world, checkpoints, steps=100_000) as run:
            run.start().wait_step(until)
            run.kill(world - 1)
            assert run.wait()[-1] == -signal.SIGKILL
    steps = newest_step(tmp_path / "checkpoints") + 50
    last = train(tmp_path / "last", *checkpoints, world=4, steps=steps)
    assert "resuming at step " in last.output
    assert last.weights == train(tmp_path / "alone", decay, steps=steps).weights


def test_peers_of_killed_rank_exit_with_75_and_name_the_rank(tmp_path):
    with Trainer(tmp_path, 3, steps=100_000, model=options(global_batch_size=12)) as run:
        run.start().wait_step(3)
        run.kill(1)
        assert run.wait() == [75, -signal.SIGKILL, 75]
        assert "rank 1" in run.errors


def test_peers_and_analyze_command_name_the_hung_rank(tmp_path):
    arguments = ["--collective-timeout=5", "--checkpoint-every=0",
                 f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    with Trainer(tmp_path, 3, arguments, steps=100_000,
                 model=options(global_batch_size=12)) as run:
        run.start().wait_step(3)
        run.kill(2, signal.SIGSTOP)
        wait_until(lambda: all(run.processes[rank].poll() == 75 for rank in (0, 1)),
                   lambda: run.errors)
        assert "rank 2" in (tmp_path / "0.err").read_text()
        evidence = tmp_path / "checkpoints/evidence/run"
        assert {file.name for file in evidence.iterdir()} >= {"rank-00000.json", "rank-00001.json"}
    with Trainer(tmp_path / "analysis", command="analyze", arguments=[str(evidence)]) as analysis:
        assert analysis.start().wait() == [0], analysis.errors
        assert "rank 2" in analysis.output
        assert analysis.output.count("\n") == 1


def test_sigterm_to_one_rank_makes_all_ranks_save_one_step_and_exit_with_143(tmp_path):
    decay = "--decay-steps=500"
    arguments = [decay, "--checkpoint-every=0", f"--checkpoint-dir={tmp_path / 'checkpoints'}"]
    with Trainer(tmp_path / "first", world=2, arguments=arguments, steps=100_000) as run:
        run.start().wait_step(5)
        run.kill(1, signal.SIGTERM)
        assert run.wait() == [143, 143], run.errors
    steps = newest_step(tmp_path / "checkpoints") + 50
    resumed = train(tmp_path / "second", *arguments, world=2, steps=steps)
    assert "resuming at step" in resumed.output
    assert resumed.weights == train(tmp_path / "alone", decay, steps=steps).weights
    loads = [record.get("checkpoint_load_seconds", 0) > 0 for record in resumed.records]
    assert loads == [True] + [False] * (len(loads) - 1)


def test_trainer_skips_torn_checkpoint_and_names_the_torn_file(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    arguments = ["--checkpoint-every=4", f"--checkpoint-dir={checkpoints}"]
    whole = train(tmp_path / "first", *arguments, steps=12)
    newest = sorted(checkpoints.glob("step-*"))[-1]
    with open(newest / "model.safetensors", "r+b") as file:
        file.truncate(1000)
    again = train(tmp_path / "second", *arguments, steps=12)
    assert "resuming at step 8" in again.output
    assert f"{newest}/model.safetensors" in again.errors
    assert again.weights == whole.weights


def test_trainer_keeps_only_the_requested_number_of_checkpoints(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    train(tmp_path, "--checkpoint-every=2", "--keep=2", f"--checkpoint-dir={checkpoints}", steps=8)
    assert [each.name for each in sorted(checkpoints.glob("step-*"))] == [
        "step-00000006", "step-00000008"]


def test_training_continues_on_full_disk_and_keeps_last_checkpoint(tmp_path):
    def no_large_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, 64 * 1024))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    checkpoints = tmp_path / "checkpoints"
    arguments = ["--checkpoint-every=4", f"--checkpoint-dir={checkpoints}"]
    train(tmp_path / "first", *arguments, steps=4)
    full = train(tmp_path / "full", *arguments, steps=12, preexec=no_large_files)
    assert "resuming at step 4" in full.output
    assert "step-00000008/model.safetensors: File too large" in full.errors
    assert [each.name for each in checkpoints.glob("step-*")] == ["step-00000004"]
    assert not list(checkpoints.glob(".writing*"))


# ---- what can't work ----


def llmc(path, tokens):
    header = struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253)
    path.write_bytes(header + struct.pack(f"<{len(tokens)}H", *tokens))
    return path


@pytest.mark.parametrize("make, says", [
    (lambda folder: folder / "missing-*.txt", "missing-*.txt"),
    (lambda folder: folder, "folder"),
    (lambda folder: (folder / "empty.txt", (folder / "empty.txt").touch())[0], "empty"),
    (lambda folder: (folder / "short.txt", (folder / "short.txt").write_text("a" * 99))[0],
     "sequences"),
    (lambda folder: llmc(folder / "large.bin", [300] * 9999), "300"),
], ids=["missing", "a folder", "empty", "less than a batch", "a token beyond the vocabulary"])
def test_trainer_rejects_unusable_data_and_names_the_reason(tmp_path, make, says):
    (tmp_path / "folder").mkdir()
    code, said = fails(tmp_path / "run", data=[make(tmp_path / "folder")])
    assert code == 2, said
    assert says in said


@pytest.mark.parametrize("arguments, says", [
    ({"global_batch_size": 6, "micro_batch_size": 4}, "not a multiple of the micro-batch of 4"),
    ({"heads": 3}, "multiple of heads"),
    ({"sync": "parameter-server", "server": 4}, "not a rank of 1"),
    ({"resume": "/nonexistent"}, "/nonexistent"),
    ({"clip": -1}, "--clip"),
], ids=str)
def test_trainer_rejects_invalid_options_and_names_the_reason(tmp_path, arguments, says):
    code, said = fails(tmp_path, model=options(**arguments))
    assert code == 2, said
    assert says in said


def test_trainer_names_rank_that_sees_different_data(tmp_path):
    (tmp_path / "0").write_text("a" * 9999)
    (tmp_path / "1").write_text("b" * 9999)
    # A name of its own for each rank, as a file on each machine would be.
    script = tmp_path / "rank"
    command = Trainer(tmp_path, data=["DATA"]).command
    script.write_text("#!/bin/sh\nexec " + " ".join(command).replace("DATA", f"{tmp_path}/$RANK"))
    script.chmod(0o755)
    with Trainer(tmp_path, world=2) as run:
        run.command = [str(script)]
        assert run.start().wait() == [2, 2]
        assert "rank 1 sees other data than rank 0" in run.errors


def test_trainer_rejects_indivisible_world_and_lists_valid_world_sizes(tmp_path):
    code, said = fails(tmp_path, world=3)
    assert code == 2
    assert "run it with 1, 2, 4, 8 processes" in said


def test_trainer_rejects_checkpoint_of_another_width_and_names_both_widths(tmp_path):
    checkpoints = f"--checkpoint-dir={tmp_path / 'checkpoints'}"
    train(tmp_path / "first", checkpoints, steps=2)
    code, said = fails(tmp_path / "second", checkpoints, model=options(width=64), steps=4)
    assert code == 2
    assert "32" in said and "64" in said


def test_ranks_skip_steps_with_nonfinite_loss_and_fail_after_max_skipped(tmp_path):
    with Trainer(tmp_path, 2, ["--clip=0", "--max-skipped=3"], steps=50,
                 model=options(learning_rate="1e30")) as run:
        assert run.start().wait() == [1, 1]
        assert "no finite number in 4 steps in a row" in run.errors
        assert run.records[-1]["skipped_steps"] >= 3


# ---- what it reports ----


def test_phases_of_a_step_take_no_longer_than_the_step(tmp_path):
    record = train(tmp_path, world=2).records[-1]
    phases = ["data", "forward", "backward", "collective_wait", "optimizer", "checkpoint"]
    assert sum(record[f"{name}_seconds"] for name in phases) <= record["step_seconds"] * 1.01
    assert record["tokens"] * 2 == 8 * 32


def test_trainer_reports_required_memory_and_peak_memory(tmp_path):
    output = train(tmp_path).output
    assert " MB of memory: parameters " in output
    assert "peak memory " in output


def test_trainer_rejects_rank_outside_the_world(tmp_path):
    with Trainer(tmp_path, environment={"RANK": "7", "WORLD_SIZE": "2"}) as run:
        assert run.start().wait() == [2]
        assert "RANK" in run.errors
