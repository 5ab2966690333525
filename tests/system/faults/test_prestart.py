"""Parked interpreters, which wait beside a gang's ranks, and what becomes of them."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import textwrap

import processes
import pytest
from paths import ROOT
from waiting import wait_until

PYTHON = "/usr/bin/python3"
MODULES = ROOT / "worker" / "python"

PROGRAM = f"""
    import colorsys, decimal, json, os, subprocess, sys
    with open(os.path.join(os.environ["GATES"], "begun"), "a") as begun:
        begun.write("x")
    sys.path.insert(0, {str(MODULES)!r})
    import lockstep
    rank, generation = os.environ["RANK"], os.environ["LOCKSTEP_GENERATION"]
    if os.environ.get("DAEMON"):
        subprocess.Popen(["setsid", "sleep", "1000"])
    seen = {{"pid": os.getpid(), "argv": sys.argv, "port": os.environ["MASTER_PORT"],
             "path": os.environ.get("PYTHONPATH"), "restarts": os.environ["LOCKSTEP_RESTARTS"],
             "module": colorsys.__file__, "folder": os.getcwd()}}
    target = os.path.join(os.environ["GATES"], f"seen.{{generation}}.{{rank}}")
    with open(target + ".new", "w") as file:
        json.dump(seen, file)
    os.rename(target + ".new", target)
    lockstep.report(step=1)
    with open(os.path.join(os.environ["GATES"], rank)) as gate:
        sys.exit(int(gate.readline()))
"""


def make(gang, tmp_path, *options, environment=None, command=None, **spec):
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(PROGRAM))
    command = command or [PYTHON, *options, str(program), "--lr", "1"]
    made = gang(command=command, environment=environment,
                **{"failurePolicy": {"maxRestarts": 9}, **spec})
    made.start()
    return made


def seen(made, generation, rank):
    path = made.gates / f"seen.{generation}.{rank}"
    wait_until(path.exists, lambda: f"rank {rank} of generation {generation}\n{made.logs()}")
    return json.loads(path.read_text())


def parked(agent, but=()):
    """Children that were started to wait, other than those that are ranks by now."""
    return [pid for pid in processes.children(agent.pid) if pid not in but and
            processes.environment(pid).get("LOCKSTEP_PRESTART", "").startswith("park")]


def wait_ready(made, times=1):
    for agent in made.agents.values():
        wait_until(lambda a=agent: a.log.count("parked interpreters are ready") >= times,
                   lambda a=agent: f"parked interpreters of {a}\n{made.logs()}")


def finish(made):
    made.open_gates()
    assert made.verdict()["exitCode"] == 0


def test_second_and_third_generation_start_from_parked_interpreters(gang, tmp_path):
    made = make(gang, tmp_path, "-u", processes=2)
    first = [seen(made, "1-1", rank) for rank in range(4)]
    wait_ready(made)
    waiting = {pid for agent in made.agents.values() for pid in parked(agent)}
    assert len(waiting) == 4
    told = made.wait_status(lambda s: s.get("parked") == 4, "four parked interpreters")
    assert "parkedReason" not in told and "savedSeconds" not in told["history"][-1]
    made.tell(1, 3)
    second = [seen(made, "1-2", rank) for rank in range(4)]
    assert {each["pid"] for each in second} == waiting
    for before, after in zip(first, second):
        assert after["argv"] == before["argv"] and after["path"] == before["path"]
        assert after["restarts"] == "1" and before["restarts"] == "0"
    assert {each["port"] for each in second} == {second[0]["port"]}
    wait_ready(made, times=2)
    (began,) = [each for each in made.status()["history"] if each["generation"] == "1-2"]
    assert began["warm"] is True and began["savedSeconds"] > 0
    made.tell(2, 4)
    third = {seen(made, "1-3", rank)["pid"] for rank in range(4)}
    assert not third & waiting
    for agent in made.agents.values():
        wait_until(lambda a=agent: a.log.count("all ranks of this machine started from parked interpreters") == 2,
                   lambda a=agent: a.log)
    finish(made)


def test_warm_rank_runs_files_and_folder_that_plain_start_would_run(gang, tmp_path):
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
    link = tmp_path / "current"
    link.symlink_to("v1")
    made = make(gang, tmp_path, machines=1, workingDir=str(link))
    first = seen(made, "1-1", 0)
    assert first["folder"] == str(tmp_path / "v1")
    wait_ready(made)
    (waiting,) = parked(made.agents[0], but=[first["pid"]])
    (tmp_path / "colorsys.py").write_text("")
    made.tell(0, 3)
    second = seen(made, "1-2", 0)
    assert second["pid"] == waiting  # which has started its program plain
    assert second["module"] == str(tmp_path / "colorsys.py") != first["module"]
    wait_ready(made, times=2)
    (tmp_path / "new").symlink_to("v2")
    (tmp_path / "new").rename(link)
    made.tell(0, 3)
    assert seen(made, "1-3", 0)["folder"] == str(tmp_path / "v2")
    made.agents[0].wait_log("the parked interpreter of local rank 0 differs from the rank to start")
    finish(made)


def test_gang_survives_second_failure_right_after_first_failure(gang, tmp_path):
    made = make(gang, tmp_path)
    seen(made, "1-1", 0)
    wait_ready(made)
    made.tell(0, 3)
    seen(made, "1-2", 0)
    made.tell(0, 3)
    last = seen(made, "1-3", 1)
    assert last["restarts"] == "2"
    finish(made)


def test_parked_interpreters_die_with_killed_agent(gang, tmp_path):
    made = make(gang, tmp_path)
    wait_ready(made)
    agent = made.agents[1]
    waiting = parked(agent)
    assert waiting
    agent.kill()
    wait_until(lambda: not any(processes.alive(pid) for pid in waiting), "the end of the parked interpreters")
    made.heal_until_running()
    finish(made)


def test_daemon_of_rank_dies_with_generation_and_parked_interpreter_stays(gang, tmp_path):
    made = make(gang, tmp_path, machines=1, environment={"DAEMON": "1"})
    rank = seen(made, "1-1", 0)["pid"]
    wait_ready(made)
    (waiting,) = parked(made.agents[0], but=[rank])
    (daemon,) = [pid for pid in made.left() if "sleep 1000" in processes.command(pid)]
    made.tell(0, 3)
    assert seen(made, "1-2", 0)["pid"] == waiting
    assert not processes.alive(daemon)
    finish(made)


def test_rank_restarts_after_its_parked_interpreter_is_killed(gang, tmp_path):
    made = make(gang, tmp_path, machines=1)
    wait_ready(made)
    (waiting,) = parked(made.agents[0], but=[seen(made, "1-1", 0)["pid"]])
    os.kill(waiting, signal.SIGKILL)
    made.tell(0, 3)
    assert seen(made, "1-2", 0)["pid"] != waiting
    finish(made)


def test_machine_without_parked_interpreters_starts_cold_beside_warm_machine(gang, tmp_path):
    made = make(gang, tmp_path)
    first = [seen(made, "1-1", rank)["pid"] for rank in range(2)]
    wait_ready(made)
    (kept,) = parked(made.agents[0], but=first)
    (killed,) = parked(made.agents[1], but=first)
    os.kill(killed, signal.SIGKILL)
    made.agents[1].wait_log("the parked interpreter of local rank 0")
    made.tell(0, 3)
    assert seen(made, "1-2", 0)["pid"] == kept
    assert seen(made, "1-2", 1)["pid"] != killed
    assert "started from parked interpreters" not in made.agents[1].log
    finish(made)


def test_guard_kills_ranks_and_parked_interpreters_when_lease_expires(gang, tmp_path):
    made = make(gang, tmp_path, failurePolicy={"machineLostAfter": "6s", "maxRestarts": 9})
    first = [seen(made, "1-1", rank)["pid"] for rank in range(2)]
    wait_ready(made)
    agent = made.agents[1]
    assert parked(agent, but=first)
    agent.stop()
    wait_until(lambda: not made.left_of(agent), "the guard to kill ranks and parked interpreters")
    agent.cont()
    made.wait_running(after="1-1")
    finish(made)


def test_agent_reports_why_command_has_no_parked_interpreter(gang, tmp_path):
    program = tmp_path / "train.py"
    for options, why in ((["-I"], "option -I keeps it"), (["-E"], "option -E keeps it"),
                         (["-S"], "option -S keeps it")):
        made = make(gang, tmp_path, *options, machines=1)
        made.agents[0].wait_log(why)
        assert not parked(made.agents[0])
        finish(made)
    made = make(gang, tmp_path, machines=1, command=["bash", "-c", f"{PYTHON} {program}; exit $?"])
    made.agents[0].wait_log("no interpreter is parked: bash is not Python")
    made.wait_status(lambda s: s.get("parkedReason") == "machine 0: bash is not Python", "why")
    made.tell(0, 3)
    assert seen(made, "1-2", 0)["restarts"] == "1"
    finish(made)


# ---- memory ----

# With two ranks and what is parked for them it is a rank's growth that reaches the limit, by 20 MiB or by 80;
# with nothing parked it ends 100 or 50 MiB below.
LIMIT, BALLAST, GROWTH = 700, 60, {"Auto": 440, "Always": 500}  # MiB
GROW = """
import ballast, os, socket, sys, time
with socket.socket(socket.AF_UNIX) as agent:
    agent.connect(os.environ["LOCKSTEP_SOCKET"])
    agent.sendall(b'{"rank": %s, "step": 1}\\n' % os.environ["RANK"].encode())
with open(os.path.join(os.environ["GATES"], os.environ["RANK"])) as gate:
    code = int(gate.readline())
grown, size = [], 0
while size < GROWTH:
    grown.append(b"x" * (4 << 20))
    size += 4
    # Slowly where it becomes short: the agent is to see it.
    time.sleep(0.2 if size > GROWTH - 80 else 0.02)
sys.exit(code)
"""


@pytest.fixture
def limited():
    """A cgroup with a memory limit, which is killed as one where the kernel can do that (version 2);
    and how many of it the kernel has killed."""
    versions = {"/sys/fs/cgroup/memory": ("memory.limit_in_bytes", "memory.oom_control"),
                "/sys/fs/cgroup": ("memory.max", "memory.events")}
    name = f"lockstep-prestart-{os.getpid()}"
    for root, (limit, counts) in versions.items():
        group = pathlib.Path(root, name)
        with contextlib.suppress(OSError):
            group.mkdir()
        if (group / limit).exists():
            break
        with contextlib.suppress(OSError):
            group.rmdir()
    else:
        pytest.skip("no cgroup of one's own here")
    (group / limit).write_text(f"{LIMIT}M")
    if (group / "memory.oom.group").exists():
        (group / "memory.oom.group").write_text("1")
    def kills():
        return int(re.search(r"oom_kill (\d+)", (group / counts).read_text())[1])

    yield group, kills
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the group's end")
    group.rmdir()


@pytest.mark.parametrize("prestart", ["Auto", "Always"])
def test_parked_interpreters_exit_before_oom_kill_unless_prestart_is_always(
        limited, gang, tmp_path, prestart):
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "ballast.py").write_text(f"data = b'x' * ({BALLAST} << 20)\n")
    program = tmp_path / "grow.py"
    program.write_text(GROW.replace("GROWTH", str(GROWTH[prestart])))
    made = gang(machines=1, processes=2, command=[str(tmp_path / "venv/bin/python"), str(program)],
                prestart=prestart, failurePolicy={"maxRestarts": 0})
    group, kills = limited
    made.start(prefix=["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh"])
    wait_ready(made)
    agent = made.agents[0]
    [rank] = [pid for pid in processes.children(agent.pid) if pid not in parked(agent)
              and processes.environment(pid).get("RANK") == "0"]
    made.tell(0, 0)
    if prestart == "Always":
        wait_until(kills, lambda: f"the kernel to kill\n{made.logs()}")
        return
    agent.wait_log("no interpreter is parked: memory became short")
    wait_until(lambda: not processes.alive(rank), "rank 0 to give back what it has")
    made.tell(1, 0)
    assert made.verdict()["exitCode"] == 0
    assert kills() == 0


# What `conda run` does: a script that activates its environment, run by a shell beside it.
CONDA = """#!/usr/bin/python3
import os, shlex, subprocess, sys, tempfile
with tempfile.NamedTemporaryFile("w", delete=False) as script:
    script.write(f'eval "$({shlex.quote(sys.executable)} -c "")"\\n{shlex.join(sys.argv[2:])}\\n')
done = subprocess.run(["bash", script.name], env=dict(os.environ))
os.unlink(script.name)
sys.exit(done.returncode)
"""


def launch_by(launcher, tmp_path):
    program = str(tmp_path / "train.py")
    found = shutil.which(launcher)
    if launcher == "uv":
        if not found:
            pytest.skip("uv is not here: tools/deps brings it")
        return [found, "run", "--no-project", "--offline", "--python", PYTHON, program]
    if found:
        return [found, "run", "-p", os.environ["CONDA_PREFIX"], "--no-capture-output", "python", program]
    stand_in = tmp_path / "conda"
    stand_in.write_text(CONDA)
    stand_in.chmod(0o755)
    return [str(stand_in), "run", PYTHON, program]


@pytest.mark.parametrize("launcher", ["uv", "conda"])
def test_uv_and_conda_run_get_no_parked_interpreter_and_never_start_early(
        gang, tmp_path, launcher):
    command = launch_by(launcher, tmp_path)
    made = make(gang, tmp_path, machines=1, prestart="Always", command=command)
    why = f"{launcher} starts the program in a separate process"
    for generation in ("1-1", "1-2", "1-3"):
        assert seen(made, generation, 0)["path"] is None
        made.wait_status(lambda s: s.get("parkedReason") == f"machine 0: {why}", "why")
        assert not parked(made.agents[0])
        made.tell(0, 0 if generation == "1-3" else 3)
    assert made.verdict()["exitCode"] == 0
    assert (made.gates / "begun").read_text() == "xxx"
    assert f"no interpreter is parked: {why}" in made.agents[0].log


def test_agent_parks_no_interpreter_when_prestart_is_never(gang, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(PROGRAM))
    made = gang(machines=1, command=[PYTHON, str(program)], prestart="Never")
    made.start()
    seen(made, "1-1", 0)
    assert "prestart:" not in made.agents[0].log
    finish(made)
