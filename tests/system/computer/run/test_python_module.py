"""worker/python/lockstep.py against an agent's side of the socket that the test plays."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest
from paths import MODULES

MODULE = str(MODULES)


class Agent:
    """Answers each line with what `answer` returns for it: bytes, or None for nothing."""

    def __init__(self, path, answer=lambda message: None):
        self.lines = []
        self.came = threading.Condition()
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                with self.came:
                    self.lines.append(message)
                    self.came.notify_all()
                answer = self._answer(message)
                if answer is not None:
                    connection.sendall(answer)

    def wait_for(self, count):
        with self.came:
            assert self.came.wait_for(lambda: len(self.lines) >= count, 30)


def run(program, path=None, **environment):
    """The program's output, run as a training process is."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
    variables.update(environment, PYTHONPATH=MODULE)
    if path:
        variables.update(LOCKSTEP_SOCKET=path, RANK="3")
    done = subprocess.run(
        [sys.executable, "-c", "import lockstep\n" + program],
        env=variables, capture_output=True, text=True, timeout=60, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "s")


def test_a_report_is_one_line_with_the_rank_and_numbers_only(path):
    agent = Agent(path)
    run("lockstep.report(step=10, loss=2.5, tokens=4096, total_steps=100, norm=float('nan'), lr=1e-3)", path)
    agent.wait_for(1)
    assert agent.lines[0] == {
        "rank": 3, "step": 10, "loss": 2.5, "tokens": 4096, "total_steps": 100, "norm": "NaN", "lr": 1e-3,
    }


def test_step_that_is_no_number_is_left_out(path):
    agent = Agent(path)
    run("lockstep.report(step=float('nan'), total_steps=float('inf'), loss=float('-inf'))", path)
    agent.wait_for(1)
    assert agent.lines[0] == {"rank": 3, "loss": "-Infinity"}


def test_program_learns_which_steps_to_leave_out(path):
    program = "print([step for step in range(12) if lockstep.skips(step)])"
    assert run(program, path, LOCKSTEP_SKIP_STEPS="2-3,7-7,x,10-9") == "[2, 3, 7]"
    assert run(program, path) == "[]"


def test_module_without_agent_returns_defaults(tmp_path):
    folder = tmp_path / "step-1"
    folder.mkdir()
    out = run(
        "lockstep.report(step=1)\n"
        f"print(lockstep.latest(), lockstep.commit({str(folder)!r}), lockstep.restarts())"
    )
    assert out == f"None {folder} 0"


def test_report_to_missing_agent_does_not_end_training(path):
    run("[lockstep.report(step=s) for s in range(1000)]", path)


def test_report_does_not_block_if_agent_reads_nothing(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()
    run("[lockstep.report(step=s, **{'metric%d' % i: i for i in range(50)}) for s in range(5000)]", path)
    listener.close()


def test_latest_returns_checkpoint_that_agent_names(path):
    Agent(path, lambda m: json.dumps({"id": m["id"], "latest": "/ckpt/1"}).encode() + b"\n")
    assert run("print(lockstep.latest())", path) == "/ckpt/1"


def test_latest_raises_error_if_agent_does_not_answer(path):
    Agent(path)
    out = run(
        "try:\n  lockstep.latest(timeout=0.2)\nexcept lockstep.AgentUnavailable as e:\n  print('refused:', e)",
        path,
    )
    assert out.startswith("refused: no answer from the agent")


def test_granted_commit_moves_directory_and_writes_latest_file(path, tmp_path):
    generation = tmp_path / "checkpoints" / "2-5"
    (generation / "step-7" / "deep").mkdir(parents=True)
    (generation / "step-7" / "deep" / "weights").write_text("w")
    final = generation / "000001.step-7"
    agent = Agent(path, lambda m: json.dumps({"id": m["id"], "ok": True, "final": str(final)}).encode() + b"\n")
    out = run(f"print(lockstep.commit({str(generation / 'step-7')!r}))", path)
    assert out == str(final)
    assert agent.lines[0]["commit"] == "step-7"
    assert (final / "deep" / "weights").read_text() == "w"
    assert (tmp_path / "LATEST").read_text() == "checkpoints/2-5/000001.step-7\n"


def test_commit_names_the_generation_that_saved(path, tmp_path):
    folder = tmp_path / "step-7"
    folder.mkdir()
    agent = Agent(path, lambda m: json.dumps({"id": m["id"], "ok": True, "final": str(folder)}).encode() + b"\n")
    run(f"lockstep.commit({str(folder)!r})", path, LOCKSTEP_GENERATION="1-3")
    assert [line["generation"] for line in agent.lines if "commit" in line] == ["1-3"]


def test_a_refused_commit_leaves_the_directory_where_it_was(path, tmp_path):
    folder = tmp_path / "step-7"
    folder.mkdir()
    Agent(path, lambda m: json.dumps({"id": m["id"], "ok": False, "reason": "the lease has run out"}).encode() + b"\n")
    out = run(
        f"try:\n  lockstep.commit({str(folder)!r})\nexcept lockstep.CommitRefused as e:\n  print(e)", path
    )
    assert out == "the lease has run out"
    assert folder.is_dir()


def test_the_trainer_callback_reports_and_commits(path, tmp_path):
    pytest.importorskip("transformers")
    generation = tmp_path / "checkpoints" / "1-1"
    (generation / "checkpoint-5").mkdir(parents=True)
    final = generation / "000001.checkpoint-5"
    agent = Agent(path, lambda m: json.dumps({"id": m["id"], "ok": True, "final": str(final)}).encode() + b"\n" if "commit" in m else None)
    run(
        "from lockstep_hf import LockstepCallback\n"
        "from types import SimpleNamespace as N\n"
        "callback = LockstepCallback()\n"
        "state = N(global_step=5, max_steps=10, is_world_process_zero=True)\n"
        "callback.on_log(None, state, None, logs={'loss': 1.5, 'learning_rate': 0.1})\n"
        f"callback.on_save(N(output_dir={str(generation)!r}), state, None)\n",
        path, LOCKSTEP_CHECKPOINT_DIR=str(generation), HF_HUB_OFFLINE="1",
    )
    agent.wait_for(2)
    assert {"rank": 3, "step": 5, "total_steps": 10, "loss": 1.5, "learning_rate": 0.1} in agent.lines
    assert final.is_dir()


def test_module_reports_checkpoint_load_time_once_with_first_step(path):
    agent = Agent(path)
    run("lockstep.loaded(1.5)\nlockstep.report()\nlockstep.report(step=3)\nlockstep.report(step=4)", path)
    agent.wait_for(3)
    assert agent.lines == [{"rank": 3}, {"rank": 3, "step": 3, "checkpoint_load_seconds": 1.5}, {"rank": 3, "step": 4}]


def test_trainer_callback_commits_part_of_each_machine_in_memory(path, tmp_path):
    """With a stand-in for transformers: the callback touches nothing of it but the class."""
    (tmp_path / "stubs").mkdir()
    (tmp_path / "stubs" / "transformers.py").write_text("class TrainerCallback: pass\n")
    memory = tmp_path / "local" / "checkpoints"
    (memory / "checkpoint-5").mkdir(parents=True)
    (memory / "checkpoint-6").mkdir()
    answers = {"checkpoint-5": {"ok": True, "final": "/memory/1-1/0/000001.checkpoint-5"},
               "checkpoint-6": {"ok": False, "reason": "memory is full"}}
    agent = Agent(path, lambda m: json.dumps({"id": m["id"], **answers[m["commit"]]}).encode() + b"\n")
    out = run(
        f"import sys; sys.path.insert(0, {str(tmp_path / 'stubs')!r})\n"
        "from lockstep_hf import LockstepCallback\n"
        "from types import SimpleNamespace as N\n"
        "arguments = N(output_dir=lockstep.memory_dir(), save_on_each_node=True)\n"
        "for step, mine in ((5, True), (6, True), (6, False)):\n"
        "    state = N(global_step=step, is_local_process_zero=mine, is_world_process_zero=False)\n"
        "    LockstepCallback().on_save(arguments, state, None)\n"
        "try:\n"
        "    LockstepCallback().on_save(N(output_dir=arguments.output_dir, save_on_each_node=False), state, None)\n"
        "except ValueError as error:\n"
        "    print(error)",
        path, LOCKSTEP_LOCAL_DIR=str(tmp_path / "local"), GROUP_WORLD_SIZE="2",
    )
    assert [(line["commit"], line["memory"]) for line in agent.lines] == [("checkpoint-5", True), ("checkpoint-6", True)]
    assert not (memory / "checkpoint-6").exists()  # its room is needed
    assert "save_on_each_node=True" in out


def test_process_and_forked_child_write_stacks_to_separate_files(path, tmp_path):
    (tmp_path / "stacks").mkdir()
    out = run(
        "import os, signal\n"
        "child = os.fork()\n"
        "os.kill(os.getpid(), 51)\n"
        "if child == 0: os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(os.getpid(), child)",
        path,
    )
    for pid in out.split():
        text = (tmp_path / "stacks" / pid).read_text()
        assert text.split("\n")[0].isdigit()
        assert text.count("most recent call first") == 1


def test_program_keeps_its_own_handler_of_stack_signal(path, tmp_path):
    (tmp_path / "stacks").mkdir()
    assert run(
        "import importlib, signal\n"
        "lockstep.faulthandler.unregister(51)\n"
        "lockstep._stacks = None\n"
        "signal.signal(51, lambda *_: print('mine'))\n"
        "importlib.reload(lockstep)\n"
        "signal.raise_signal(51)",
        path,
    ) == "mine"


ENDS = {
    "pass": True,
    "def main():\n    return 3\nif __name__ == '__main__':\n    main()": True,
    "try:\n    raise ValueError\nexcept ValueError:\n    pass": True,
    "import sys; sys.exit(3)": False,
    "raise SystemExit(3)": False,
    "raise ValueError": False,
    "import os\nif os.fork() == 0: raise SystemExit\nos.wait()\nraise SystemExit": False,
}


@pytest.mark.parametrize("text", ENDS)
def test_program_says_that_it_ended_only_if_it_reached_its_last_line(path, tmp_path, text):
    agent = Agent(path, lambda message: "id" in message and b'{"id": 1, "ok": true}\n' or None)
    program = tmp_path / "train.py"
    program.write_text("import lockstep\nlockstep.report(step=1)\n" + text)
    variables = {**os.environ, "PYTHONPATH": MODULE, "LOCKSTEP_SOCKET": path, "RANK": "3",
                 "LOCKSTEP_GENERATION": "1-2"}
    process = subprocess.Popen([sys.executable, program], env=variables, stderr=subprocess.DEVNULL)
    process.wait(60)
    agent.wait_for(1)
    said = [line for line in agent.lines if "done" in line]
    want = {"rank": 3, "id": 1, "done": "1-2", "pid": process.pid}
    assert said == ([want] if ENDS[text] else [])


def test_program_ends_with_its_own_code_if_agent_does_not_answer(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    generation = {"LOCKSTEP_GENERATION": "1-2"}
    assert run("print('trained')", path, **generation) == "trained"  # nobody listens
    listener.listen()
    assert run("print('trained')", path, **generation) == "trained"  # nobody answers


HINT = """
import errno, os
def full(*args):
    raise OSError(errno.ENOSPC, "No space left on device")
os.replace = full
"""


def test_latest_stays_the_former_one_without_a_file_beside_it_if_the_disk_is_full(tmp_path):
    final = tmp_path / "checkpoints/2-5/000003.step-1200"
    source = tmp_path / "checkpoints/2-5/step-1200"
    source.mkdir(parents=True)
    (tmp_path / "LATEST").write_text("the former one\n")
    path = str(tmp_path / "agent.sock")
    Agent(path, lambda message: json.dumps({"id": message["id"], "ok": True, "final": str(final)})
          .encode() + b"\n" if "commit" in message else None)
    assert run(HINT + f"print(lockstep.commit({str(source)!r}))", path) == str(final)
    assert final.is_dir()
    assert (tmp_path / "LATEST").read_text() == "the former one\n"
    assert sorted(os.listdir(tmp_path)) == ["LATEST", "agent.sock", "checkpoints"]
