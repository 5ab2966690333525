"""What went wrong is said truly, charged to the right budget, and answered by the job's policy."""

import json
import os
import pathlib
import signal
import socket

import kill_states
import processes
import pytest
from paths import MODULES, ROOT
from test_processes import run_hook
from waiting import holds_for, wait_until


def failure_of(told):
    return told["lastFailure"]


def finish(gang):
    gang.open_gates()
    assert gang.verdict()["exitCode"] == 0


def fails(gang):
    """The verdict of a job that fails; every agent that is left says the same."""
    told = gang.verdict()
    assert told["verdict"]
    said = [(agent.termination["exitCode"], agent.termination["generation"],
             agent.process.returncode) for agent in gang.agents.values()]
    assert set(said) == {(told["exitCode"], told["generation"], told["exitCode"])}
    return told


def test_a_checkpoint_folder_of_another_job_fails_the_job_at_once(gang):
    made = gang(machines=2, checkpoint="checkpoints")
    generations = made.checkpoint / "generations"
    generations.mkdir(parents=True)
    another = {"generation": "1-1", "jobUID": "another", "resumes": ""}
    (generations / "1-1").write_text(json.dumps(another))
    made.start()
    told = fails(made)
    assert told["exitCode"] == 78
    assert failure_of(told)["cause"] == "Configuration"
    assert "holds checkpoints of another job (another)" in failure_of(told)["message"]
    assert "resume: Never" in failure_of(told)["message"]


# ---- crashes of an interpreter that exits ----

# What was registered first is called last: after lockstep's own.
CRASHES_AT_EXIT = f"""
import atexit, os, sys
if os.environ["RANK"] == "1":
    atexit.register(os.abort)
sys.path.insert(0, {str(MODULES)!r})
import lockstep
lockstep.report(step=1)
"""
ENDS = {
    "": 0,
    "sys.exit(3)": 70,
    "os.abort()": 70,
}


@pytest.mark.parametrize("end", ENDS)
def test_rank_that_crashes_at_exit_has_finished_only_if_its_program_had_ended(gang, tmp_path, end):
    program = tmp_path / "train.py"
    program.write_text(CRASHES_AT_EXIT + (end and f"if os.environ['RANK'] == '1':\n    {end}\n"))
    made = gang(command=["/usr/bin/python3", str(program)], policy={"maxRestarts": 0})
    made.start()
    assert made.verdict()["exitCode"] == ENDS[end]
    assert ("died of SIGABRT while its interpreter exited" in made.agents[1].log) == (end == "")


def test_rank_crashes_although_another_process_of_it_had_ended(gang, tmp_path):
    program = tmp_path / "prepare.py"
    program.write_text(CRASHES_AT_EXIT.replace("atexit.register(os.abort)", "pass"))
    made = gang(command=["sh", "-c", f"/usr/bin/python3 {program}; kill -ABRT $$$$"],
                policy={"maxRestarts": 0})
    made.start()
    assert "SIGABRT" in failure_of(fails(made))["message"]


# ---- budgets ----


def test_status_names_unresponsive_checkpoint_folder(gang):
    scene = kill_states.preparing(gang)
    words = f"waiting for the checkpoint folder {scene.gang.checkpoint}"
    scene.gang.wait_status(lambda s: s["reason"].startswith(words), words)
    scene.gang.agents[0].wait_log(words)
    scene.release()
    scene.gang.wait_running()


def test_spent_restart_budget_fails_job_and_names_last_failure(gang):
    made = gang(machines=3, policy={"maxRestarts": 1})
    made.start()
    made.wait_running()
    made.tell(0, 4)
    made.wait_running(after="1-1")
    made.tell(2, 9)
    told = fails(made)
    assert told["exitCode"] == 70
    cause = failure_of(told)
    assert (cause["machine"], cause["rank"], cause["exitCode"]) == (2, 2, 9)
    assert "rank 2 on machine 2 exited with code 9" in cause["message"]


def test_the_same_crash_twice_before_a_first_step_fails_the_job_early(gang):
    made = gang(policy={"maxRestarts": 100})
    made.start()
    made.wait_running()
    made.open_gates([1], code=5)
    told = fails(made)
    assert told["exitCode"] == 70
    assert told["generation"] == "1-2"
    assert (failure_of(told)["cause"], failure_of(told)["exitCode"]) == ("EarlyCrash", 5)


@pytest.mark.parametrize(("command", "code"), [("/no/such/program", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started_fails_the_job_at_once(gang, command, code):
    made = gang(command=[command])
    made.start()
    told = fails(made)
    assert told["exitCode"] in (70, 78)
    assert told["generation"] == "1-1"
    assert failure_of(told)["cause"] == "CommandNotFound"
    assert failure_of(told)["exitCode"] == code
    assert command in json.dumps(told)


def test_failure_names_machine_on_which_command_is_missing(gang):
    made = gang(machines=3, environment={"STUBBORN": "1"}, command=["./rank.sh"])
    here, there = made.folder / "here", made.folder / "there"
    here.mkdir(), there.mkdir()
    (here / "rank.sh").symlink_to(ROOT / "tests/lib/rank.sh")
    made.start(0, 2, prefix=("env", "-C", str(here)))
    made.start(1, prefix=("env", "-C", str(there)))
    told = fails(made)
    assert failure_of(told)["machine"] == 1
    assert failure_of(told)["exitCode"] == 127


MEMORY = pathlib.Path("/sys/fs/cgroup/memory")


@pytest.fixture
def cramped(tmp_path):
    """The start of a command line that runs a machine in a memory cgroup with 64 MiB."""
    if not os.access(MEMORY / "memory.limit_in_bytes", os.W_OK):
        pytest.skip("with version 2 of cgroups kubelets let the whole container die")
    group = MEMORY / f"lockstep-{os.getpid()}-{tmp_path.name}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(64 << 20))
    yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh")
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the machine's processes to end")
    group.rmdir()  # asked for before `gang`, which ends them


def test_failure_of_oom_killed_rank_has_cause_out_of_memory(
        cramped, gang):
    hoard = 'if [ "$RANK" = 1 ]; then x=0123456789; while :; do x=$x$x; done; fi; sleep 600'
    made = gang(command=["sh", "-c", hoard], policy={"maxRestarts": 0})
    made.start(prefix=cramped)
    cause = failure_of(fails(made))
    assert (cause["cause"], cause["rank"], cause["signal"]) == ("OutOfMemory", 1, 9)
    assert "its machine was out of memory" in cause["message"]


# ---- rules ----


def test_a_rule_fails_the_job_on_an_exit_code(gang):
    made = gang(policy={"rules": [{"exitCodes": [78], "action": "Fail"}]})
    made.start()
    made.wait_running()
    made.tell(1, 78)
    told = fails(made)
    assert told["exitCode"] != 0
    assert failure_of(told)["exitCode"] == 78


def test_stderr_rule_replaces_machine_of_matching_rank(gang):
    made = gang(policy={"rules": [{"stderr": "uncorrectable ECC", "action": "ReplaceMachine"}]})
    run_hook(made, "echo 'GPU 3: uncorrectable ECC error' >&2")
    made.start()
    made.wait_running()
    wait_until(lambda: "uncorrectable ECC" in made.agents[1].output, "the rank to say it")
    os.kill(made.agents[1].ranks()[1], signal.SIGBUS)
    status = made.wait_status(lambda s: s["machines"][1]["replace"] and s["phase"] == "Gathering",
                              "machine 1 to be replaced")
    assert "1 (to be replaced)" in status["reason"]
    made.agents[1].kill()
    assert made.heal_until_running()["machines"][1]["attempt"] == 2
    finish(made)


# ---- root causes ----


def test_first_rank_failure_is_cause_even_if_reported_last(gang):
    made = gang(machines=3, proxied=[1])
    made.start()
    made.wait_running()
    made.proxies[1].cut()
    rank = made.agents[1].ranks()[1]
    made.tell(1, 9)
    wait_until(lambda: processes.state(rank) == "", "rank 1 to die and its agent to reap it")
    # By more than clocks may differ: they are known as well as the quickest answer was quick.
    holds_for(2, lambda: made.status()["phase"] == "Running", "nobody knows of it")
    made.tell(0, 1)  # what its peers do when their collective breaks
    made.wait_phase("Stopping")
    made.proxies[1].heal()
    made.wait_running(after="1-1")
    failure = made.status()["lastFailure"]
    assert (failure["rank"], failure["exitCode"]) == (1, 9)
    finish(made)


def test_killed_rank_is_cause_even_if_its_stopped_agent_reports_last(gang):
    made = gang(machines=2, policy={"machineLostAfter": "120s"})
    made.start()
    made.wait_running()
    rank = made.agents[1].ranks()[1]
    made.agents[1].stop()
    os.kill(rank, signal.SIGKILL)
    wait_until(lambda: processes.state(rank) == "Z", "rank 1 to die")
    made.tell(0, 1)  # it finds its connection to rank 1 ended
    made.wait_phase("Stopping")
    holds_for(2, lambda: made.status()["phase"] == "Stopping", "machine 1 is waited for")
    made.agents[1].cont()
    made.wait_running(after="1-1")
    failure = made.status()["lastFailure"]
    assert (failure["rank"], failure["signal"]) == (1, signal.SIGKILL)
    assert failure["message"].endswith("noticed before it: rank 0 on machine 0 exited with code 1")
    finish(made)


def test_a_process_that_exits_because_its_peer_is_lost_is_not_the_cause(gang):
    made = gang(machines=3, proxied=[1, 2])
    made.start()
    made.wait_running()
    for machine, code in ((1, 75), (2, 9)):  # 75 came first, and yields all the same
        made.proxies[machine].cut()
        rank = made.agents[machine].ranks()[machine]
        made.tell(machine, code)
        wait_until(lambda pid=rank: not processes.alive(pid), f"rank {machine} to die")
    made.proxies[2].heal()
    made.wait_phase("Stopping")
    made.proxies[1].heal()
    made.wait_running(after="1-1")
    failure = made.status()["lastFailure"]
    assert (failure["rank"], failure["exitCode"]) == (2, 9)
    finish(made)


def test_lost_machine_is_cause_instead_of_errors_of_its_peers(gang):
    made = gang(machines=3)
    made.start()
    made.wait_running()
    made.agents[1].kill()
    made.tell_all({0: 1, 2: 1})
    status = made.heal_until_running()
    assert status["lastFailure"]["cause"] == "MachineLost"
    assert status["lastFailure"]["machine"] == 1
    assert status["counters"]["processFailures"] == 0
    finish(made)


def test_rank_without_progress_fails_job_as_hang(gang):
    made = gang(policy={"maxRestarts": 0}, health={"hangTimeout": "1s"})
    made.start()
    made.wait_running()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(made.agents[1].folder / "run/agent.sock"))
        client.sendall(json.dumps({"rank": 1, "step": 3}).encode() + b"\n")
        told = fails(made)
    assert told["exitCode"] == 77
    assert (failure_of(told)["cause"], failure_of(told)["rank"]) == ("Hang", 1)


def test_success_of_three_ranks_does_not_hide_failure_of_fourth_rank(gang):
    made = gang(machines=2, processes=2, policy={"maxRestarts": 0})
    made.start()
    made.wait_running()
    made.open_gates([0, 1, 2])
    made.wait_status(lambda s: s["machines"][0]["state"] == "Finished", "machine 0 to finish")
    made.tell(3, 6)
    told = fails(made)
    assert (failure_of(told)["rank"], failure_of(told)["exitCode"]) == (3, 6)
