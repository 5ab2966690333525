"""A gang that hangs is looked at before it is killed; a healthy one may be looked at at any time."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time

import processes
import pytest
from paths import ROOT
from tls import binary
from waiting import wait_until

MODULE = ROOT / "worker/python"
PROGRAM = textwrap.dedent("""
    import os, time
    {imports}
    rank, world, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["MEETING"]
    odd = int(os.environ.get("ODD", -1))

    def load_batch():
        time.sleep(3600)

    pipes = []
    for each in range(world):
        try:
            os.mkfifo(f"{{folder}}/to-{{each}}")
        except FileExistsError:
            pass
        pipes.append(os.open(f"{{folder}}/to-{{each}}", os.O_RDWR))

    def tell(words):
        for pipe in pipes[:rank] + pipes[rank + 1:]:
            os.write(pipe, words)

    # As a collective: whoever waits is in one line of it.
    def barrier(step):
        open(f"{{folder}}/{{step}}.{{rank}}", "w").close()
        tell(b".")
        left = world - 1
        while left: left -= len(os.read(pipes[rank], left))

    step = 0
    while not os.path.exists(f"{{folder}}/end"):
        time.sleep(0.01)
        step += 1
        if step == 3 and rank == odd:
            load_batch()
        barrier(step)
        {report}
    tell(b"." * world)  # who waits sees the end, too
""")
ARMED = PROGRAM.format(imports="import lockstep", report="lockstep.report(step=step)")
SOCKET = ("import json, socket\nline = socket.socket(socket.AF_UNIX)\n"
          "line.connect(os.environ['LOCKSTEP_SOCKET'])")
REPORT = 'line.send(json.dumps({"rank": rank, "step": step}).encode() + b"\\n")'
# Imports nothing of Lockstep's, and says its steps as another language would.
UNMODIFIED = PROGRAM.format(imports=SOCKET, report=REPORT)
# Likewise, and is ended by a signal that it does not catch, though its file says that it is armed.
UNARMED = PROGRAM.format(
    imports=f"{SOCKET}\n"
            "stacks = os.path.dirname(os.environ['LOCKSTEP_SOCKET']) + '/stacks'\n"
            "held = os.open(f'{stacks}/{os.getpid()}', os.O_WRONLY | os.O_CREAT)\n"
            "os.write(held, b'%d\\n' % held)",
    report=REPORT)


@pytest.fixture
def training(gang, tmp_path):
    """Makes a gang of 2 machines x 2 that runs `program`, with `modules` beside it."""
    def make(program, environment=None, modules=None, full=None, **options):
        meeting = tmp_path / "meeting"
        meeting.mkdir()
        for name, text in {"train.py": program, **(modules or {})}.items():
            (tmp_path / name).write_text(text)
        if program is UNARMED:  # prestart would arm it
            options["prestart"] = "Never"
        made = gang(processes=2, command=[sys.executable, str(tmp_path / "train.py")],
                    environment={"PYTHONPATH": str(MODULE), "MEETING": str(meeting),
                                 "PATH": "/usr/bin:/bin",  # where there is no py-spy
                                 **(environment or {})}, **options)
        made.meeting = meeting
        logs = str(tmp_path / "logs")
        made.start(logPath=logs, prefix=[*full, logs] if full else [])
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


def shows_all(agent, words):
    """All ranks of an agent do when it asks: one that has no core just then shows nothing."""
    wait_until(lambda: all(words in rank["evidence"] for rank in ask(agent).values()),
               lambda: f"{words} of every rank; last {ask(agent)}")


def hang_of(made, pattern="made no progress"):
    """The first failure with such a message. What a hang was like is not told of a rank that had no
    core when it was asked, and the next hang is like it."""
    return made.wait_status(lambda s: re.search(pattern, s["lastFailure"].get("message", "")),
                            pattern, patience=60)["lastFailure"]


def test_hang_failure_names_function_and_line_of_every_rank(training, tmp_path):
    made = training(ARMED, {"ODD": "3"}, health={"hangTimeout": "1s"})
    line = 1 + ARMED[: ARMED.index("time.sleep(3600)")].count("\n")
    failure = hang_of(made, r"^rank 3 on machine 1 made no progress for hangTimeout: ranks 0-2 are "
                            r"in barrier \(train\.py:\d+\), "
                            rf"rank 3 is in load_batch \(train\.py:{line}\)$")
    assert (failure["rank"], failure["machine"], failure["cause"]) == (3, 1, "Hang")
    kept = "1-*/evidence/rank-3.txt"
    wait_until(lambda: any("in load_batch" in file.read_text()
                           for file in (tmp_path / "logs").glob(kept)), kept)
    made.wait_running(after="1-1")


def test_healthy_job_continues_while_agents_collect_evidence(training):
    made = training(ARMED)
    stepping(made)
    for _ in range(5):
        assert sorted({**ask(made.agents[0]), **ask(made.agents[1])}) == [0, 1, 2, 3]
        for agent in made.agents.values():
            shows_all(agent, "most recent call first")
    stepping(made)
    (made.meeting / "end").touch()
    assert made.verdict()["exitCode"] == 0


def test_agent_sends_no_signal_to_unarmed_program(training):
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


def test_agent_sends_no_signal_when_stacks_descriptor_holds_other_file(training, tmp_path):
    other = f"lockstep.report\nos.dup2(os.open('{tmp_path}/' + os.environ['RANK'], os.O_WRONLY | " \
            "os.O_CREAT), lockstep._stacks)"
    made = training(PROGRAM.format(imports=f"import lockstep\n{other}",
                                   report="lockstep.report(step=step)"))
    stepping(made)
    for rank in ask(made.agents[0]).values():
        assert "most recent call first" not in rank["evidence"]
    assert [(tmp_path / rank).read_text() for rank in "0123"] == [""] * 4


def test_hung_py_spy_delays_restart_by_less_than_30_seconds(training, tmp_path):
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
    assert time.monotonic() - began < 30  # and not for good
    assert (tmp_path / "spied").exists()


def test_stopped_rank_does_not_block_evidence_of_other_ranks(training):
    made = training(ARMED, {"ODD": "3"}, health={"hangTimeout": "4s"})
    wait_until(lambda: (made.meeting / "3.0").exists(), "the ranks to meet")
    os.kill(made.agents[0].ranks()[1], signal.SIGSTOP)
    failure = hang_of(made)
    assert "rank 3 is in load_batch" in failure["message"], failure
    assert "state T" in failure["message"], failure


# ---- what the program itself keeps: flight recorders, NCCL ----

# As torch: a thread reads the pipe that the environment names, and writes the recorder's pickle.
TORCH = """
import os, threading, pathlib
number = os.environ["RANK"]
pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + number + ".pipe"
dump = pathlib.Path(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + number)
def answer():
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR)
    os.read(held, 128)
    dump.write_bytes(b"\\x80\\x02half")
    dump.write_bytes(b"\\x80\\x02" + b"no pickle" * 1000)
if number == "0" and not os.path.exists(pipe):
    threading.Thread(target=answer).start()
elif number == "1":
    dump.write_bytes(b"old")
    os.utime(dump, (0, 0))
elif number == "2":
    dump.symlink_to(os.environ["SECRET"]) if not dump.is_symlink() else None
elif number == "3":
    with open(dump, "wb") as file:
        file.truncate(64 << 20)
"""


def test_agent_requests_and_copies_torch_flight_recorder_dump(training, tmp_path):
    (tmp_path / "secret").write_text("secret")
    made = training(PROGRAM.format(imports="import torch_like, lockstep",
                                   report="lockstep.report(step=step)"),
                    {"ODD": "3", "SECRET": str(tmp_path / "secret"),
                     "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{tmp_path}/pipe_",
                     "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/dump_"},
                    {"torch_like.py": TORCH}, health={"hangTimeout": "1s"})
    generation = hang_of(made) and "1-1"
    kept = tmp_path / f"logs/{generation}/evidence"
    wait_until(lambda: (kept / "torch_flight_rank_0").exists(), "the recorder of rank 0")
    assert (kept / "torch_flight_rank_0").read_bytes().count(b"no pickle") == 1000
    agents = made.agents[0].log + made.agents[1].log
    made.agents[1].wait_log("torch_flight_rank_3 (")  # too large
    assert sorted(file.name for file in kept.glob("torch*")) == ["torch_flight_rank_0"], agents


# As NCCL's RAS thread, where the agent has it listen.
RAS = """
import os, socket, sys, threading
way = os.environ["WAYS"].split(",")[int(os.environ["RANK"])]
if way == "another's" and os.environ["NCCL_RAS_ADDR"] != os.environ["FOREIGN"]:
    os.environ["NCCL_RAS_ADDR"] = os.environ["FOREIGN"]
    os.execv(sys.executable, [sys.executable, *sys.argv])

def serve(server):
    while True:
        client = server.accept()[0]
        file = client.makefile("rw")
        if way == "silent":
            held.append(client)
            continue
        said = file.readline()
        if way == "web":
            file.write("HTTP/1.1 400 Bad Request\\n")
        elif said == "CLIENT PROTOCOL 2\\n":
            file.write("SERVER PROTOCOL 2\\n")
            file.flush()
            assert file.readline().startswith("TIMEOUT ")
            file.write("OK\\n")
            file.flush()
            assert file.readline() == "VERBOSE STATUS\\n"
            file.write("Job summary: 1 node of " + way + "\\x1b[31m\\n")
        file.flush()
        try:
            while way == "endless":
                client.sendall(b"x" * 65536)
        except OSError:
            pass
        file.close()
        client.close()

held = []
if way != "another's":
    host, port = os.environ["NCCL_RAS_ADDR"].split(":")
    server = socket.create_server((host, int(port)), reuse_port=True)
    threading.Thread(target=serve, args=(server,), daemon=True).start()
"""


def test_agent_queries_nccl_ras_only_at_addresses_of_its_ranks(training, tmp_path):
    def said(machine):
        return "".join(rank["evidence"] for rank in ask(made.agents[machine]).values())

    with socket.create_server(("127.0.0.1", 0)) as foreign:
        foreign.settimeout(0)
        made = training(
            PROGRAM.format(imports="import ras_like, lockstep", report="lockstep.report(step=step)"),
            {"WAYS": "well,another's,silent,another's,endless,another's,web,another's,"
                     "another's,another's", "FOREIGN": "127.0.0.1:%d" % foreign.getsockname()[1]},
            {"ras_like.py": RAS}, machines=5)
        stepping(made)
        for machine, words in enumerate([
                "Job summary: 1 node of well", "does not answer as such",
                "Job summary: 1 node of endless", "does not answer as such"]):
            wait_until(lambda m=machine, w=words: w in said(m), f"'{words}' of machine {machine}")
        wait_until(lambda: "(the rest was too long" in said(2), "what is too much to be cut")
        assert "RAS" not in said(4)
        stepping(made)
        with pytest.raises(BlockingIOError):
            foreign.accept()
    (made.meeting / "end").touch()
    assert made.verdict()["exitCode"] == 0


def test_py_spy_shows_stacks_of_unarmed_program(training):
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    if shutil.which("py-spy", path=path) is None:
        pytest.skip("py-spy is not installed (tools/deps installs it)")
    made = training(UNARMED, {"PATH": path})
    stepping(made)
    wait_until(lambda: all("(train.py:" in rank["place"] for rank in ask(made.agents[0]).values()),
               lambda: f"stacks by py-spy; last {ask(made.agents[0])}")
    stepping(made)
    (made.meeting / "end").touch()
    assert made.verdict()["exitCode"] == 0


def test_an_unmodified_program_with_prestart_shows_its_stacks(training):
    made = training(UNMODIFIED, prestart="Always")
    stepping(made)
    for machine in (0, 1):
        wait_until(lambda: all("(train.py:" in rank["place"]
                               for rank in ask(made.agents[machine]).values()),
                   lambda: f"stacks; last {ask(made.agents[machine])}")
    stepping(made)
    (made.meeting / "end").touch()
    assert made.verdict()["exitCode"] == 0


# ---- what cannot be looked at, or kept ----

# posix_spawn waits, in state D and with all signals blocked, for a child that waits for a writer.
STUCK = ("os.path.exists(f'{folder}/pipe') or os.mkfifo(f'{folder}/pipe')\n    "
         "os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 9, "
         "f'{folder}/pipe', os.O_RDONLY, 0)])")


def test_hang_failure_names_rank_in_uninterruptible_sleep_and_gang_restarts(training):
    made = training(ARMED.replace("time.sleep(3600)", STUCK), {"ODD": "3"},
                    health={"hangTimeout": "1s"})
    failure = hang_of(made, r"ranks 0-2 are in barrier .*, rank 3 is in .*state D\)")
    assert failure["rank"] == 3, failure
    made.wait_running(after="1-1")


def test_gang_restarts_after_hang_when_log_disk_is_full(training):
    full = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "sh",
            "-c", 'mkdir -p "$0" && mount -t tmpfs -o size=4k full "$0" && exec "$@"']
    if subprocess.run([*full[:-3], "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount namespace can be had here")
    made = training(ARMED, {"ODD": "3"}, health={"hangTimeout": "1s"}, full=full)
    hang_of(made, "rank 3 is in load_batch")
    made.wait_running(after="1-1")
    made.agents[0].wait_log("the stacks of the hanging ranks could not be saved: ")
def test_the_built_in_trainers_flight_recorder_names_the_collective(gang, tmp_path):
    job = {"modelShape": {"layers": 1, "heads": 1, "width": 16, "vocabulary": 256},
           "data": ["/usr/share/common-licenses/GPL-3"], "steps": 10_000_000, "globalBatchSize": 4,
           "sequenceLength": 16, "checkpointEvery": 0}
    made = gang(processes=2, command=[binary("lockstep-trainer"), "job", json.dumps(job)],
                environment={"OMP_NUM_THREADS": "1"},
                health={"hangTimeout": "6s"})
    made.start(logPath=str(tmp_path / "logs"))
    made.wait_running()
    stepping(made)
    shows_all(made.agents[0], "Flight: ")
    stepping(made)  # it goes on
    generation = made.status()["generation"]
    os.kill(made.agents[1].ranks()[3], signal.SIGSTOP)
    failure = hang_of(made)
    assert re.search(r' in (allreduce|reduce-scatter|all-gather|barrier|broadcast) \d+ "',
                     failure["message"]), failure
    assert re.search(r", rank 3 is in .*state T", failure["message"]), failure
    assert failure["rank"] == 3, failure
    kept = tmp_path / f"logs/{generation}/evidence"
    files = [kept / f"rank-{rank:05}.json" for rank in range(3)]
    wait_until(lambda: all(file.exists() for file in files), f"{files}")
    done = subprocess.run([binary("lockstep-trainer"), "analyze", str(kept)], capture_output=True,
                          text=True, timeout=30, check=True)
    assert "rank 3 fell behind: it left no evidence" in done.stdout, done.stdout


