"""`lockstep-trainer train --in-place`: ranks that outlive a generation, under `lockstep run`."""

import functools
import json
import os
import pathlib
import re
import signal
import tempfile
import time

import processes
import pytest
import trainer_jobs
from run import Run, pid_of, ranks
from tls import binary
from trainer_jobs import STEPS, wait_commits, weights
from waiting import wait_until

FAKES = pathlib.Path(binary("lockstep-trainer")).parents[1] / "fake_nccl"
MODEL = ("--layers", "2", "--heads", "2", "--width", "32", "--global-batch-size", "8",
         "--sequence-length", "32")
# Of the kernels, which the fake of CUDA runs thread by thread.
MODEL_OF_GPUS = ("--layers", "1", "--heads", "1", "--width", "64", "--global-batch-size", "4",
                 "--sequence-length", "16", "--micro-batch-size", "1", "--device", "cuda")
STEPS_OF_GPUS = 30
# What a rank of 2 x 2 asks NCCL for, counted in each communicator: 8 operations to the position,
# then the state's arrays and their hash, then 4 of each step.
SECOND_ARRAY = 10
LAST_OF_STEP_3 = 24


def job(folder, machines=2, processes=2, steps=STEPS, flags=("--in-place",), model=MODEL, env=(),
        faults=()):
    """With a model that makes a step in milliseconds, of which rank 0 writes each into `steps`.

    faults: rank -> more of its first process's environment, as in "FAKE_INIT=die".
    """
    file = folder / "job.yaml"
    command = [binary("lockstep-trainer"), "train", *model, "--vocabulary", "256",
               "--data", "/usr/share/common-licenses/GPL-3", "--learning-rate", "1e-3",
               "--checkpoint-every", "50", "--steps", str(steps),
               "--metrics", str(folder / "steps"), *flags]
    if faults:
        cases = " ".join(f"{rank}.1-1) export {fault};;" for rank, fault in faults.items())
        command = ["sh", "-c", f'case $RANK.$LOCKSTEP_GENERATION in {cases} esac; exec "$@"', "sh",
                   *command]
    file.write_text(json.dumps({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "gpt"},
        "spec": {"numMachines": machines, "processesPerMachine": processes, "command": command,
                 "env": [{"name": name, "value": value} for name, value in dict(env).items()],
                 "failurePolicy": {"maxRestarts": 50},
                 "checkpoint": {"path": str(folder / "checkpoints")}}}))
    return str(file)


def steps_of(folder):
    """Of whole lines: the last may be on its way."""
    try:
        lines = (folder / "steps").read_text().splitlines(keepends=True)
    except OSError:
        return []
    return [json.loads(line)["step"] for line in lines if line.endswith("\n")]


def wait_step(folder, step):
    wait_until(lambda: steps_of(folder)[-1:] >= [step], f"step {step}", 90)


def kill(run, rank):
    os.kill(pid_of(run.mark, rank), signal.SIGKILL)


def pids(run, count):
    return {rank: pid for rank, (pid, _) in run.wait_ranks(count).items()}


def kill_the_first_of_4(run):
    """Rank 0, whose next process finds the others as they were."""
    before = pids(run, 4)
    kill(run, 0)
    wait_until(lambda: pids(run, 4)[0] != before[0], "rank 0's next process", 60)
    after = pids(run, 4)
    assert {rank for rank in after if after[rank] != before[rank]} == {0}


@functools.cache
def weights_alone(steps, on_gpus=False):
    """Of one rank that nothing happens to."""
    options = {"model": MODEL_OF_GPUS, "env": {"LD_LIBRARY_PATH": str(FAKES)}} if on_gpus else {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        code, _, output = Run(folder, job(folder, 1, 1, steps, **options)).finish()
    assert code == 0, output
    return weights(output)


def run_on_gpus(folder, faults=(), env=()):
    """2 x 2 ranks on the fakes, which meet through /proc, so all see all processes."""
    return Run(folder, "--no-pid-namespace", job(
        folder, steps=STEPS_OF_GPUS, model=MODEL_OF_GPUS, faults=dict(faults),
        env={"LD_LIBRARY_PATH": str(FAKES), **dict(env)}))


def finish_on_gpus(folder, run, died, kept):
    """died: the rank of each failure; kept: how many processes each next generation kept."""
    code, report, output = run.finish()
    assert code == 0, output
    generations = report["generations"]
    assert [g["failure"].get("rank") for g in generations] == [*died, None], output
    assert [g.get("kept", 0) for g in generations[1:]] == kept, output
    assert "resuming at step" not in output, output
    assert weights(output) == weights_alone(STEPS_OF_GPUS, on_gpus=True)
    return output


def test_surviving_rank_keeps_its_process_and_gives_its_state_to_restarted_rank(tmp_path):
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
    assert steps_of(tmp_path) == list(range(1, STEPS + 1)), "each step is made and told once"
    assert weights(output) == weights_alone(STEPS)


def test_job_with_recovery_in_place_keeps_surviving_ranks(tmp_path):
    run = Run(tmp_path, trainer_jobs.job(tmp_path, steps=STEPS, recovery="InPlace"))
    wait_commits(tmp_path, 1)
    kill_the_first_of_4(run)
    code, report, output = run.finish()
    assert code == 0, output
    assert report["generations"][1]["kept"] == 3, output
    assert "resuming at step" not in output, output
    assert weights(output) == trainer_jobs.weights_alone()


# From a rank's death to a second one's. Two of them a job: a third failure so soon waits 5 s, the next 30.
PAUSES = [None, 0, 0.01, 0.03, 0.1, 0.3]


@pytest.mark.parametrize("first", range(0, len(PAUSES), 2))
def test_job_recovers_in_place_if_second_rank_is_killed_during_recovery(tmp_path, first):
    run = Run(tmp_path, job(tmp_path))
    for n in range(first, first + 2):
        wait_step(tmp_path, 20 + 100 * (n - first))
        run.wait_ranks(4)
        kill(run, (3 + n) % 4)
        if PAUSES[n] is not None:
            time.sleep(PAUSES[n])
            kill(run, n % 4)
    code, report, output = run.finish()
    assert code == 0, output
    assert len(report["generations"]) >= 3
    *earlier, last = report["generations"][1:]
    assert last["kept"] >= 1
    # The second death may come before all processes of a generation were started.
    assert all(each["kept"] >= 1 for each in earlier if each["spawned"] is not None), earlier
    assert "resuming at step" not in output, output
    assert weights(output) == weights_alone(STEPS)


def test_agent_replaces_stopped_rank_that_does_not_leave_in_time(tmp_path):
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
    assert weights(output) == weights_alone(STEPS)


def test_job_resumes_from_checkpoint_if_no_rank_survives(tmp_path):
    run = Run(tmp_path, job(tmp_path))
    wait_step(tmp_path, 120)
    processes.kill_all(pids(run, 4).values())
    code, report, output = run.finish()
    assert code == 0, output
    assert report["generations"][1].get("kept", 0) == 0
    assert "resuming at step" in output, output
    assert weights(output) == weights_alone(STEPS)


def test_a_stop_on_request_ends_ranks_that_outlived_a_generation(tmp_path):
    run = Run(tmp_path, job(tmp_path, steps=5000))
    wait_step(tmp_path, 20)
    kill(run, 1)
    wait_step(tmp_path, steps_of(tmp_path)[-1] + 20)
    run.process.send_signal(signal.SIGINT)
    code, _, output = run.finish()
    assert code != 0
    assert "stopped on request after step" in output, output


@pytest.mark.parametrize("on_gpus", [False, True], ids=["on CPUs", "on GPUs"])
@pytest.mark.parametrize("flags", [("--sync", "parameterserver"), ("--pipeline", "2"),
                                   ("--tensor", "2", "--tensor-shards", "2")], ids="-".join)
def test_trainer_rejects_in_place_recovery_if_ranks_do_not_hold_whole_state(tmp_path, flags, on_gpus):
    model = ("--layers", "2", "--heads", "2", "--width", "128", "--global-batch-size", "8",
             "--sequence-length", "32", "--device", "cuda" if on_gpus else "cpu")
    code, report, output = Run(tmp_path, job(
        tmp_path, machines=1, model=model, flags=("--in-place", *flags),
        env={"LD_LIBRARY_PATH": str(FAKES)} if on_gpus else ())).finish()
    assert code == 2, output
    assert len(report["generations"]) == 1
    servers = on_gpus and "--sync" in flags
    assert ("a parameter server computes on CPUs" if servers
            else "in-place restart needs ranks that hold the whole state") in output


def test_failure_names_operation_in_which_other_ranks_wait_for_stopped_rank(tmp_path):
    run = Run(tmp_path, job(tmp_path, flags=("--collective-timeout", "4")))
    wait_step(tmp_path, 20)
    os.kill(pid_of(run.mark, 2), signal.SIGSTOP)
    code, report, output = run.finish()
    assert code == 0, output
    failure = report["generations"][0]["failure"]
    # One of them may be an operation ahead of the others.
    assert re.fullmatch(r"rank \d on machine \d exited with code 75; ranks? [013,-]+ (is|are) in "
                        r"\S+ \d+ .*of \d+ bytes", failure["message"]), report
    assert "rank 2 stopped answering" in failure["stderr"], report


def test_failure_of_killed_rank_names_current_operation_of_other_ranks(tmp_path):
    run = Run(tmp_path, job(tmp_path))
    wait_step(tmp_path, 20)
    kill(run, 2)
    code, report, output = run.finish()
    assert code == 0, output
    assert re.fullmatch(r"rank 2 on machine 1 was killed by SIGKILL; ranks? [013,-]+ (is|are) in .*",
                        report["generations"][0]["failure"]["message"]), report


def test_surviving_gpu_rank_makes_new_communicator_and_gives_its_state(tmp_path):
    run = run_on_gpus(tmp_path, env={"FAKE_LOADS": "1"})  # a survivor's GPU stays open
    wait_step(tmp_path, 3)
    kill_the_first_of_4(run)
    output = finish_on_gpus(tmp_path, run, [0], [3])
    assert "NCCL" in output and "cuda Stand-in GPU" in output
    assert re.search(r"continuing after step \d+ with the state of rank [123]", output), output


def test_gpu_rank_stays_alive_if_copy_of_its_state_takes_longer_than_agent_waits(tmp_path):
    # Three arrays, and an agent waits 5 s. Rank 1 writes no checkpoints, so it copies nothing else.
    run = run_on_gpus(tmp_path, {1: "FAKE_SLOW_COPY_MS=2500"})
    wait_step(tmp_path, 3)
    kill(run, 3)
    finish_on_gpus(tmp_path, run, [3], [3])


def test_gpu_job_recovers_if_second_rank_dies_while_communicator_is_made(tmp_path):
    run = run_on_gpus(tmp_path, {2: "FAKE_COMM=2 FAKE_INIT=die"})
    wait_step(tmp_path, 3)
    kill(run, 3)
    finish_on_gpus(tmp_path, run, [3, 2], [3, 3])


def test_gpu_job_recovers_if_furthest_rank_is_killed_while_giving_its_state(tmp_path):
    sending = tmp_path / "sending"
    run = run_on_gpus(tmp_path, {
        0: f"FAKE_COMM=2 FAKE_STUCK_AT={SECOND_ARRAY} FAKE_STUCK_FILE={sending}",
        **dict.fromkeys((1, 2), f"FAKE_COMM=1 FAKE_UNSEEN_AT={LAST_OF_STEP_3}")})
    wait_step(tmp_path, 3)  # made by rank 0, and not by ranks 1 and 2
    kill(run, 3)
    wait_until(sending.exists, "rank 0 to give its moments", 60)
    kill(run, 0)
    output = finish_on_gpus(tmp_path, run, [3, 0], [3, 3])
    assert "continuing after step 2 with the state of rank 1" in output, output


@pytest.mark.parametrize("fault", ["FAKE_ABORT=hang", f"FAKE_STUCK_AT={LAST_OF_STEP_3}"],
                         ids=["that never ends", "within a call that never ends"])
def test_agent_replaces_gpu_rank_that_does_not_return_from_abort(tmp_path, fault):
    stuck = tmp_path / "stuck"
    run = run_on_gpus(tmp_path, {2: f"{fault} FAKE_STUCK_FILE={stuck}"})
    wait_step(tmp_path, 2)
    if "STUCK_AT" in fault:
        wait_until(stuck.exists, "rank 2 within NCCL", 60)
    before = pids(run, 4)
    kill(run, 3)
    wait_until(lambda: len(found := ranks(run.mark)) == 4 and found[2][0] != before[2],
               "rank 2's next process", 60)
    assert {rank: pids(run, 4)[rank] for rank in (0, 1)} == {rank: before[rank] for rank in (0, 1)}
    finish_on_gpus(tmp_path, run, [3], [2])
