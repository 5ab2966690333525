"""`lockstep run` on other nodes, by srun and ssh, which are stood in for: tests/lib/far_client.py.
tests/system/frameworks/test_slurm.py and test_ssh.py have real ones."""

import os
import re
import signal

import far_client
import processes
import pytest
from run import MARK, TELLS, Run, listening, ranks
from run_output import Output
from waiting import wait_until

SLEEPS = ["--", "sleep", "1000"]


@pytest.fixture
def start(tmp_path):
    """Starts a `lockstep run`."""
    return lambda *arguments, variables: Run(tmp_path, *arguments, variables=variables)


@pytest.fixture(params=["srun", "ssh"])
def two_nodes(request, tmp_path):
    """How `lockstep run` comes to two nodes with two processes each: (arguments, environment)."""
    if request.param == "srun":
        return [], far_client.allocation(tmp_path, "n1,n2", tasks="2(x2)")
    return ["--hosts", "n1,me@n2", "-p", "2"], far_client.reached(tmp_path)


def marked(run):
    return {pid: processes.command(pid) for pid in processes.with_variable(MARK, run.mark)}


def stop(run):
    run.process.send_signal(signal.SIGTERM)
    return run.finish()


def test_run_starts_ranks_on_all_nodes_in_its_working_directory(start, tmp_path, two_nodes):
    arguments, environment = two_nodes
    run = start(*arguments, "--", "/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE in $(pwd -P)",
              variables=environment)
    code, report, output = run.finish()
    assert code == 0, output
    assert sorted(re.findall(r"rank (\d) of 4", output)) == ["0", "1", "2", "3"], output
    assert output.count(f"in {os.getcwd()}") == 4, output


def test_key_appears_in_no_command_line_and_no_environment(start, tmp_path, two_nodes):
    arguments, environment = two_nodes
    run = start(*arguments, *SLEEPS, variables=environment)
    run.wait_ranks(4)
    for pid in processes.with_variable(MARK, run.mark):
        texts = [processes.command(pid), *processes.environment(pid).values()]
        assert not any(re.search(r"\b[0-9a-f]{64}\b", text) for text in texts), pid
    stop(run)


def test_killed_rank_restarts_in_place(start, tmp_path, two_nodes):
    arguments, environment = two_nodes
    run = start(*arguments, *SLEEPS, variables=environment)
    said = Output(run)
    first = run.wait_ranks(4)
    os.kill(first[3][0], signal.SIGKILL)
    run.wait_ranks(4, but_not_in=first[3][1])
    said.wait("all 4 ranks running again", "the restart")
    run.process.send_signal(signal.SIGTERM)
    run.process.wait(60)
    output = said.join()
    _, report, _ = run.finish()
    assert report["restarts"]["application"] == 1 and report["restarts"]["infrastructure"] == 0
    assert "rank 3 on machine 1" in output, output


@pytest.mark.parametrize("who", ["agent", "client"])
def test_run_replaces_killed_agent_or_client_on_the_same_node(start, tmp_path, two_nodes, who):
    arguments, environment = two_nodes
    run = start(*arguments, *SLEEPS, variables=environment)
    said = Output(run)
    first = run.wait_ranks(4)
    victim = first[3][0]
    while victim := processes.parent(victim):  # from the rank up to who is to die
        command = processes.command(victim)
        if (who == "agent" and "--config-fd" in command) or "--remote" in command:
            break
    assert victim, f"no {who} above the rank"
    if who == "client":
        victim = processes.parent(victim)
        assert "far-bin" in processes.command(victim)
    os.kill(victim, signal.SIGKILL)
    run.wait_ranks(4, but_not_in=first[3][1])
    wait_until(lambda: len(ranks(run.mark)) == 4 and not processes.alive(first[3][0]),
               "the rank that was there to be gone")
    said.wait("machine failure 1 of 10", "the replacement to be told")
    run.process.send_signal(signal.SIGTERM)
    run.process.wait(60)
    output = said.join()
    _, report, _ = run.finish()
    assert report["restarts"]["infrastructure"] == 1, report
    assert re.search(r"on node (me@)?n2; attempt 2 takes its place", output), output


def test_sigterm_stops_all_ranks_and_suspends_the_run(start, tmp_path, two_nodes):
    arguments, environment = two_nodes
    run = start(*arguments, "--", *TELLS, variables=environment)
    said = Output(run)
    wait_until(lambda: listening(said.text) == 4, "ranks that listen")
    run.process.send_signal(signal.SIGTERM)
    run.process.wait(60)
    output = said.join()
    code, report, _ = run.finish()
    assert code == 128 + signal.SIGTERM, output
    assert sorted(re.findall(r"told (\d)", output)) == ["0", "1", "2", "3"], output
    assert "stopped" in output and report["state"] == "Suspended"


def test_killed_run_leaves_no_process_behind(start, tmp_path, two_nodes):
    arguments, environment = two_nodes
    run = start(*arguments, *SLEEPS, variables=environment)
    run.wait_ranks(4)
    run.process.kill()
    run.process.communicate(timeout=60)
    wait_until(lambda: not marked(run), lambda: f"all it started to end: {marked(run)}")


def test_run_names_each_unusable_node_and_the_remedy(start, tmp_path):
    environment = far_client.reached(tmp_path)
    (tmp_path / "n1").write_text("Host key verification failed.")
    (tmp_path / "n2").write_text("me@n2: Permission denied (publickey,password).")
    (tmp_path / "n3").write_text("sh: 1: exec: /opt/lockstep-agent: not found")
    run = start("--hosts", "n1,n2,n3,n4", *SLEEPS, variables=environment)
    output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode == 1, output
    assert "node n1: Host key verification failed.; log in there once by hand" in output
    assert "node n2: me@n2: Permission denied (publickey,password).; it must accept you without a " \
        "password" in output
    assert "node n3: sh: 1: exec: /opt/lockstep-agent: not found; copy lockstep-agent" in output
    assert "n4" not in output


def test_run_takes_first_nodes_for_fewer_machines_and_rejects_more_machines(start, tmp_path):
    environment = far_client.allocation(tmp_path, "n1,n2")
    (tmp_path / "n2").write_text("this node is not asked for")
    run = start("-m", "1", "--", "true", variables=environment)
    code, _, output = run.finish()
    assert code == 0 and "takes 1 of the 2 nodes; -m 2 takes all" in output, output
    run = start("-m", "3", "--", "true", variables=environment)
    output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode == 2, output
    assert "the job has 3 machines, and SLURM's job 7 has 2 nodes" in output


def test_run_with_local_option_ignores_the_allocation(start, tmp_path):
    environment = far_client.allocation(tmp_path, "n1,n2")
    for node in ("n1", "n2"):
        (tmp_path / node).write_text("nobody is asked")
    run = start("--local", "-m", "3", "--", "true", variables=environment)
    code, _, output = run.finish()
    assert code == 0, output
