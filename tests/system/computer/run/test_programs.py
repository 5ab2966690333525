"""Real programs under real agents: PyTorch, Accelerate, shells, and one that forks away."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import processes
import pytest
from paths import ROOT
from waiting import wait_until

HERE = pathlib.Path(__file__).parent
PYTHON = {"PYTHONPATH": str(ROOT / "worker/python"), "PYTHONDONTWRITEBYTECODE": "1"}


def train(gang, weights, **options):
    """examples/ddp.py, 2 x 2; the weights it ends with go to `weights`."""
    made = gang(machines=2, processes=2, environment=PYTHON, checkpoint="checkpoints", **options,
                command=[sys.executable, str(ROOT / "examples/ddp.py")],
                # Steps that are still to come when somebody looks.
                args=["--steps", "60", "--checkpoint-every", "10", "--weights", str(weights),
                      "--seconds-per-step", "0.1"])
    made.start()
    return made


def step(status):
    return max((rank["step"] for rank in status["progress"]), default=0)


def equal_weights(one, other):
    """Bit for bit."""
    compare = ("import sys, torch; a, b = map(torch.load, sys.argv[1:]);"
               "sys.exit(not (a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)))")
    run = subprocess.run([sys.executable, "-c", compare, str(one), str(other)], check=False)
    return run.returncode == 0


def commits(gang):
    return sorted(path.name for path in gang.checkpoint.glob("checkpoints/*/0*.*"))


@pytest.mark.slow
def test_training_killed_twice_ends_with_weights_of_undisturbed_training(gang, tmp_path):
    undisturbed, disturbed = tmp_path / "undisturbed.pt", tmp_path / "disturbed.pt"
    assert train(gang, undisturbed).verdict(180)["exitCode"] == 0

    made = train(gang, disturbed)
    made.wait_status(lambda _: len(commits(made)) >= 1, "a first checkpoint", patience=120)
    os.kill(made.agents[1].ranks()[3], signal.SIGKILL)
    status = made.wait_running(after="1-1")
    assert status["history"][-1]["resume"].startswith(str(made.checkpoint))
    before = set(commits(made))  # of which the oldest may go meanwhile
    made.wait_status(lambda _: set(commits(made)) - before, "another checkpoint", patience=120)
    made.agents[0].kill()  # the coordinator, and two ranks with it
    assert made.verdict(180)["exitCode"] == 0
    assert equal_weights(undisturbed, disturbed)
    assert "training from step" in made.agents[0].output


def test_a_data_parallel_training_of_four_processes_succeeds(gang, tmp_path):
    made = train(gang, tmp_path / "weights.pt")
    made.wait_status(lambda s: step(s) > 0, "a first step", patience=120)
    told = made.verdict(120)
    assert told["exitCode"] == 0
    assert "trained to step 60" in made.agents[0].output
    assert commits(made)[-1] == "000006.step-60"
    assert told["progress"]["step"] == 60


def test_termination_message_contains_last_step_even_if_program_ends_at_once(gang):
    script = "import lockstep\nfor n in range(1, 8): lockstep.report(step=n, total_steps=7)"
    made = gang(machines=2, processes=2, environment=PYTHON,
                command=[sys.executable, "-c", script])
    made.start()
    told = made.verdict(120)
    assert told["exitCode"] == 0
    assert told["progress"] == {"step": 7, "totalSteps": 7}


def test_an_accelerate_program_sees_one_world_of_all_processes(gang):
    made = gang(machines=2, processes=2, environment=PYTHON, framework="Accelerate",
                command=[sys.executable, str(HERE / "accelerate_program.py")])
    made.start()
    told = made.verdict(120)
    assert told["exitCode"] == 0, made.logs() + made.agents[0].output
    said = [json.loads(line.partition("{")[1] + line.partition("{")[2])
            for agent in made.agents.values() for line in agent.output.splitlines() if "{" in line]
    assert sorted(each["process"] for each in said) == [0, 1, 2, 3]
    assert {(each["processes"], each["sum"]) for each in said} == {(4, 6.0)}


def test_shell_program_gets_its_rank_and_world_size(gang):
    script = 'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on $GROUP_RANK, $1"'
    made = gang(machines=2, processes=2, command=["/bin/sh", "-c", script, "sh"], args=["done"])
    made.start()
    assert made.verdict()["exitCode"] == 0
    output = made.agents[0].output + made.agents[1].output
    for rank in range(4):
        assert f"{rank} of 4, {rank % 2} of 2 on {rank // 2}, done" in output


def test_failed_job_reports_exit_code_and_stderr_of_program(gang):
    script = 'echo working; echo "no such dataset: /data" >&2; exit 2'
    made = gang(command=["/bin/sh", "-c", script])
    made.start()
    told = made.verdict()
    assert told["exitCode"] == 70
    assert told["lastFailure"]["exitCode"] == 2  # a usage error: the default rules fail the job
    assert "no such dataset: /data" in told["lastFailure"]["stderr"]


FORKS_AWAY = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1] + "/" + os.environ["RANK"], "w").write(str(os.getpid()))
        while True:
            time.sleep(1000)
    os._exit(0)
os.wait()
if os.environ["LOCKSTEP_GENERATION"] == "1-1":
    sys.stdin = open(os.environ["GATES"] + "/" + os.environ["RANK"])
    sys.exit(int(sys.stdin.readline()))
"""


def test_program_that_forks_a_daemon_leaves_no_process_behind(gang, tmp_path):
    made = gang(command=[sys.executable, "-c", FORKS_AWAY, str(tmp_path)])
    made.start()
    made.wait_phase("Running")
    notes = [tmp_path / str(rank) for rank in (0, 1)]
    pids = [int(wait_until(lambda note=note: note.exists() and note.read_text(), "a daemon's pid"))
            for note in notes]
    made.tell(1, 3)
    assert made.verdict()["exitCode"] == 0
    assert not any(processes.alive(pid) for pid in pids)
    wait_until(lambda: not made.left(), "the guards to follow their agents")
