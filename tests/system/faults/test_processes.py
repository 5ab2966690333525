"""Processes that misbehave: what they do stays theirs, and nothing of them is left."""

import contextlib
import fcntl
import json
import os
import pathlib
import socket
import subprocess

import processes
import pytest
from waiting import wait_until

BOUND = 64 * 1024  # KiB of an agent's memory, whatever its ranks write


def run_hook(gang, script, rank=1):
    """This rank does this first, in every generation."""
    (gang.gates / "hook").write_text(f'if [ "$RANK" = {rank} ]; then\n{script}\nfi\n')


def highest_memory(agent):
    lines = pathlib.Path(f"/proc/{agent.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def alive_in(gang, generation):
    return [pid for pid in gang.left()
            if processes.environment(pid).get("LOCKSTEP_GENERATION") == generation]


def daemons(gang):
    return [pid for pid in gang.left() if "sleep" in processes.command(pid)]


def finish(gang):
    gang.open_gates()
    assert gang.verdict()["exitCode"] == 0


# ---- ending ----


def test_agent_kills_rank_that_ignores_sigterm_after_grace_period(gang):
    made = gang(environment={"STUBBORN": "1"})
    made.start()
    made.wait_running()
    made.set_desired_state(stop=("Suspended", 1))
    made.wait_phase("Held")
    assert not made.left() or not alive_in(made, "1-1")
    made.set_desired_state()
    made.wait_running(after="1-1")
    assert made.status()["counters"]["processFailures"] == 0
    finish(made)


def test_coordinator_accepts_desired_state_of_4096_machines(gang):
    made = gang(machines=2)
    made.start()
    generation = made.wait_running()["generation"]
    of_all = range(4096)
    made.set_desired_state(fenced=[(machine, 1) for machine in of_all],
                           terminated=[(machine, 1, "MachineLost") for machine in of_all[2:]])
    assert made.status()["generation"] == generation
    made.open_gates()
    assert made.verdict()["exitCode"] == 0


def test_stop_waits_for_ranks_to_exit_within_grace_period(gang):
    made = gang(environment={"STUBBORN": "1"})
    made.start()
    made.wait_running()
    made.set_desired_state(stop=("Suspended", 600))
    made.wait_phase("Stopping", machine=1)
    made.open_gates()  # both save what they have, and exit 0
    made.wait_phase("Held")
    made.set_desired_state()
    assert made.verdict()["exitCode"] == 0


@pytest.mark.parametrize("machine", [0, 1])
def test_sigterm_to_an_agent_stops_the_gang_and_costs_no_budget(gang, machine):
    made = gang(machines=3)
    made.start()
    made.wait_running()
    agent = made.agents[machine]
    agent.process.terminate()
    assert agent.process.wait(30) == 143
    assert agent.termination["verdict"] is False
    assert made.heal_until_running()["counters"]["processFailures"] == 0
    finish(made)


# Without a PID namespace, what leaves its parent and its session outlives an agent that is killed:
# whoever starts agents so is their subreaper and sweeps, as `lockstep run` does.
DAEMONS = """
busybox setsid busybox sh -c 'busybox sleep 10000 & busybox sleep 10000' &
( ( busybox setsid busybox sleep 10000 & ) & )
"""


def test_daemons_of_a_process_die_before_the_next_generation_begins(gang):
    made = gang()
    run_hook(made, DAEMONS)
    made.start()
    made.wait_running()
    wait_until(lambda: len(daemons(made)) == 3, "three daemons")
    made.tell(1, 3)
    made.wait_status(lambda s: s["generation"] == "1-2", "the next generation")
    assert alive_in(made, "1-1") == []
    finish(made)


def test_killed_agent_in_pid_namespace_leaves_no_process(gang):
    probe = subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("no PID namespace may be made here")
    made = gang()
    run_hook(made, DAEMONS)
    made.start(0)
    prefix = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    made.start(1, prefix=prefix)
    made.wait_phase("Running")
    wait_until(lambda: len(daemons(made)) == 3, "three daemons")
    made.agents[1].kill()
    wait_until(lambda: not made.left_of(made.agents[1]), "the namespace to end")
    made.heal_until_running()
    finish(made)


def test_rank_cannot_read_memory_of_agent_and_keeps_its_core_limit(gang):
    made = gang()
    run_hook(made, """
        for file in mem environ; do
            if (: </proc/$PPID/$file) 2>/dev/null; then echo $file is open; else echo $file is shut; fi
        done
        echo core $(ulimit -c)
        """)
    # As in a pod: a rank has its agent's user, and neither has capabilities.
    made.start(prefix=("setpriv", "--bounding-set", "-all",
                       "busybox", "sh", "-c", 'ulimit -S -c 8; exec "$@"', "sh"))
    made.wait_running()
    wait_until(lambda: "core" in made.agents[1].output, "what the rank found")
    assert [line.split("] ")[-1] for line in made.agents[1].output.splitlines()] == [
        "mem is shut", "environ is shut", "core 8"]
    finish(made)


# ---- output ----


def test_rank_with_100_mb_of_stderr_does_not_block_gang(gang):
    made = gang()
    run_hook(made, "yes 'it goes wrong' | head -c 100000000 >&2")
    made.start(0)
    with open(os.devnull, "wb") as nowhere:
        agent = made.start_agent(1, 1, stdout=nowhere)
        made.wait_running()
        finish(made)
    assert agent.termination["exitCode"] == 0


def test_failure_reports_last_stderr_line_after_20_mb_of_output(gang):
    made = gang()
    run_hook(made, "yes 'it goes wrong' | head -c 20000000 >&2; echo 'this is why' >&2")
    made.start()
    made.wait_running()
    made.tell(1, 9)
    made.wait_running(after="1-1")
    failure = made.status()["lastFailure"]
    assert failure["exitCode"] == 9
    assert failure["stderr"].rstrip().endswith("this is why")
    assert highest_memory(made.agents[1]) < BOUND
    finish(made)


def test_agent_keeps_memory_bounded_on_endless_output_line(gang):
    made = gang()
    run_hook(made, "head -c 200000000 /dev/zero | tr '\\0' x")
    made.start()
    made.wait_running()
    agent = made.agents[1]
    highest = highest_memory(agent)
    made.open_gates()
    while agent.running and agent.ranks():
        with contextlib.suppress(StopIteration):  # it has ended between the two
            highest = max(highest, highest_memory(agent))
    assert made.verdict()["exitCode"] == 0
    assert highest < BOUND


def test_unread_output_of_agent_never_blocks_rank(gang):
    made = gang()
    run_hook(made, "yes 0123456789 | head -c 20000000")
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    made.start(0)
    made.start(1, stdout=write)
    os.close(write)
    with os.fdopen(read):
        made.wait_running()
        made.open_gates()
        made.wait_phase("Exiting", machine=1)
        assert highest_memory(made.agents[1]) < BOUND
    assert made.verdict()["exitCode"] == 0


def test_agent_does_not_spin_when_rank_closes_its_output(gang):
    made = gang()
    run_hook(made, "exec >&- 2>&-")
    made.start()
    made.wait_running()
    rank = made.agents[1].ranks()[1]
    wait_until(lambda: not os.path.exists(f"/proc/{rank}/fd/1"), "the rank to close its output")

    def ticks():
        fields = pathlib.Path(f"/proc/{made.agents[1].pid}/stat").read_text().rpartition(")")[2]
        return sum(int(field) for field in fields.split()[11:13])

    before, silent = ticks(), 0.0

    def heard(status):
        nonlocal silent
        last, silent = silent, status["machines"][1]["silentForSeconds"]
        return silent < last

    made.wait_status(heard, "the next heartbeat")
    assert ticks() - before < 20  # of 10 ms; an agent that spins uses them all
    finish(made)


@pytest.fixture
def tiny_disk(tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder],
                             capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("no tmpfs may be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_for_logs_does_not_stop_the_job(gang, tiny_disk):
    made = gang()
    run_hook(made, "yes 0123456789 | head -c 2000000")
    made.start(0)
    made.start(1, logPath=str(tiny_disk))
    made.wait_running()
    made.agents[1].wait_log("No space left")
    made.tell(1, 4)
    made.wait_running(after="1-1")
    finish(made)


# ---- what they say ----


def test_malformed_progress_report_does_not_affect_other_connections(gang):
    made = gang()
    made.start()
    made.wait_running()
    path = str(made.agents[1].folder / "run/agent.sock")
    for nonsense in (b"nonsense\n", b"\0" * 70000, b"[" * 60000 + b"\n", b'{"rank": -1}\n'):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.settimeout(30)
            try:
                client.sendall(nonsense)
                client.recv(100)
            except (ConnectionResetError, BrokenPipeError, TimeoutError):
                pass
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(json.dumps({"rank": 1, "step": 7}).encode() + b"\n")
        made.wait_status(lambda s: any(p["step"] == 7 for p in s["progress"]), "step 7")
    finish(made)
