"""A gang that hangs is looked at before it is killed; a healthy one may be looked at at any time."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import processes
from tls import binary
from waiting import wait_until

MODULE = pathlib.Path(__file__).parents[2] / "worker/python"
PROGRAM = textwrap.dedent("""
    import os, sys, time
    {imports}
    rank, world, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["MEETING"]
    odd = int(os.environ.get("ODD", -1))

    def load_batch():
        time.sleep(3600)

    def barrier(step):
        open(f"{{folder}}/{{step}}.{{rank}}", "w").close()
        while not all(os.path.exists(f"{{folder}}/{{step}}.{{r}}") for r in range(world)):
            time.sleep(0.01)
            if os.path.exists(f"{{folder}}/end"):
                sys.exit(0)

    step = 0
    while not os.path.exists(f"{{folder}}/end"):
        step += 1
        if step == 3 and rank == odd:
            load_batch()
        barrier(step)
        {report}
""")
ARMED = PROGRAM.format(imports="import lockstep", report="lockstep.report(step=step)")
# Says its steps as another language would, and is ended by a signal that it does not catch, though
# its file says that it is armed.
UNARMED = PROGRAM.format(
    imports="import json, socket\nline = socket.socket(socket.AF_UNIX)\n"
            "line.connect(os.environ['LOCKSTEP_SOCKET'])\n"
            "stacks = os.path.dirname(os.environ['LOCKSTEP_SOCKET']) + '/stacks'\n"
            "held = os.open(f'{stacks}/{os.getpid()}', os.O_WRONLY | os.O_CREAT)\n"
            "os.write(held, b'%d\\n' % held)",
    report='line.send(json.dumps({"rank": rank, "step": step}).encode() + b"\\n")')


@pytest.fixture
def training(gang, tmp_path):
    """Makes a gang of 2 machines x 2 that runs `program`."""
    def make(program, environment=None, **options):
        meeting = tmp_path / "meeting"
        meeting.mkdir()
        (tmp_path / "train.py").write_text(program)
        made = gang(processes=2, command=[sys.executable, str(tmp_path / "train.py")],
                    environment={"PYTHONPATH": str(MODULE), "MEETING": str(meeting),
                                 **(environment or {})}, **options)
        made.meeting = meeting
        made.start(logPath=str(tmp_path / "logs"))
        made.wait_running()
        return made
    return make


def stepping(made):
    """More steps are reported by all from here on."""
    def least():
        status = made.status() or {"progress": []}
        return min((p["step"] for p in status["progress"]), default=0)
    before = least()
    wait_until(lambda: least() > before, "more steps", 30)


def ask(agent):
    done = subprocess.run([binary("lockstep-agent"), "--evidence", str(agent.folder / "run")],
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return {rank["rank"]: rank for rank in json.loads(done.stdout)["ranks"]}


def hang_of(made, words="made no progress"):
    made.wait_status(lambda s: words in s["lastFailure"].get("message", ""), words, patience=30)
    return made.status()["lastFailure"]


def test_a_hang_is_told_with_where_every_rank_stands(training, tmp_path):
    made = training(ARMED, {"ODD": "3"}, health={"hangTimeout": "1s"})
    failure = hang_of(made)
    line = 1 + ARMED[: ARMED.index("time.sleep(3600)")].count("\n")
    assert failure["message"].startswith(
        "rank 3 on machine 1 made no progress for hangTimeout: ranks 0-2 are in barrier (train.py:")
    assert failure["message"].endswith(
        f", rank 3 is in load_batch (train.py:{line})")
    assert (failure["rank"], failure["machine"], failure["cause"]) == (3, 1, "Hang")
    kept = tmp_path / "logs/1-1/evidence/rank-3.txt"
    wait_until(kept.exists, str(kept))
    assert "in load_batch" in kept.read_text()
    made.wait_running(after="1-1")


def test_a_healthy_job_goes_on_while_it_is_asked(training):
    made = training(ARMED)
    stepping(made)
    for _ in range(5):
        found = {**ask(made.agents[0]), **ask(made.agents[1])}
        assert sorted(found) == [0, 1, 2, 3]
        for rank in found.values():
            assert "most recent call first" in rank["evidence"]
    stepping(made)
    (made.meeting / "end").touch()
    assert made.verdict()["exitCode"] == 0


def test_a_program_that_is_not_armed_is_sent_no_signal(training):
    made = training(UNARMED)
    stepping(made)
    pids = [pid for agent in made.agents.values() for pid in agent.ranks().values()]
    for agent in made.agents.values():
        found = ask(agent)
        assert all("train.py" not in rank["place"] for rank in found.values())
        assert all(rank["place"] for rank in found.values())
    assert all(processes.alive(pid) for pid in pids)
    stepping(made)
    (made.meeting / "end").touch()
    assert made.verdict()["exitCode"] == 0


def test_a_process_that_holds_another_file_under_that_number_is_sent_no_signal(training, tmp_path):
    other = f"lockstep.report\nos.dup2(os.open('{tmp_path}/' + os.environ['RANK'], os.O_WRONLY | " \
            "os.O_CREAT), lockstep._stacks)"
    made = training(PROGRAM.format(imports=f"import lockstep\n{other}",
                                   report="lockstep.report(step=step)"))
    stepping(made)
    for rank in ask(made.agents[0]).values():
        assert "most recent call first" not in rank["evidence"]
    assert [(tmp_path / rank).read_text() for rank in "0123"] == [""] * 4


def test_evidence_that_hangs_itself_holds_the_kill_up_for_seconds_only(training, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    spy = tools / "py-spy"
    spy.write_text(f"#!/bin/sh\ntouch {tmp_path}/spied\nkill -STOP $$\n")
    spy.chmod(0o755)
    made = training(UNARMED, {"ODD": "1", "PATH": f"{tools}:/usr/bin:/bin"},
                    health={"hangTimeout": "1s"})
    began = time.monotonic()
    hang_of(made)
    made.wait_running(after="1-1")
    assert time.monotonic() - began < 12
    assert (tmp_path / "spied").exists()


def test_a_process_that_stands_still_does_not_hold_the_evidence_of_others_up(training):
    made = training(ARMED, {"ODD": "3"}, health={"hangTimeout": "2s"})
    wait_until(lambda: (made.meeting / "3.0").exists(), "the ranks to meet")
    os.kill(made.agents[0].ranks()[1], signal.SIGSTOP)
    failure = hang_of(made)
    assert "rank 3 is in load_batch" in failure["message"], failure
    assert "state T" in failure["message"], failure
