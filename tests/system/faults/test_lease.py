"""Agents that stand still and lines that are cut: nobody acts in a generation that is over."""

import json
import os
import signal
import socket

import processes
import pytest
from gang import number
from waiting import holds_for, wait_until

SHORT = {"machineLostAfter": "2s"}


def started_in(gang):
    """(generation, rank) of every rank that was ever started, in order."""
    lines = (gang.folder / "started").read_text().splitlines()
    return [tuple(line.split()) for line in lines]


def record_starts(gang):
    hook = f'echo "$LOCKSTEP_GENERATION $RANK" >>{gang.folder}/started\n'
    (gang.gates / "hook").write_text(hook)


def finish(gang):
    gang.open_gates()
    assert gang.verdict()["exitCode"] == 0


# ---- an agent stands still ----


def test_guard_kills_ranks_when_lease_of_stopped_agent_expires(gang):
    made = gang(machines=2, policy=SHORT)
    record_starts(made)
    made.start()
    first = made.wait_running()["generation"]
    agent = made.agents[1]
    agent.stop()
    wait_until(lambda: not made.left_of(agent), "the guard to kill its ranks")
    before = len(started_in(made))
    agent.cont()
    agent.wait_log(f"the lease of generation {first} ran out")
    made.wait_running(after=first)
    assert all(generation != first for generation, _ in started_in(made)[before:])
    assert made.status()["counters"]["processFailures"] == 0
    finish(made)


def test_agent_replaced_while_stopped_exits_when_continued(gang):
    made = gang(machines=2, policy=SHORT)
    made.start()
    made.wait_running()
    first = made.agents[1]
    first.stop()
    made.replace(1, predecessor_dead=False, listen=f"{made.address(8)}:7070", metricsListen="")
    # Its successor starts nothing before its lease is out, and then its ranks are dead.
    made.wait_running(after="1-1")
    assert all(processes.environment(pid).get("LOCKSTEP_GENERATION") != "1-1"
               for pid in made.left_of(first))
    first.cont()
    assert first.process.wait(30) == 75
    finish(made)


def test_all_ranks_die_when_coordinator_is_stopped_past_lease(gang):
    made = gang(machines=3, policy=SHORT)
    made.start()
    made.wait_running()
    made.agents[0].stop()
    wait_until(lambda: not any(made.left_of(a) for a in made.agents.values()), "all ranks to die")
    made.agents[0].cont()
    made.wait_running(after="1-1")
    finish(made)


def test_coordinator_replaced_while_stopped_starts_no_generation(gang):
    made = gang(machines=3, policy=SHORT, proxied=[1, 2])
    record_starts(made)
    made.start()
    generation = made.wait_running()["generation"]
    first = made.agents[0]
    first.stop()
    for proxy in made.proxies.values():
        proxy.redirect((made.address(8), 7070))
        proxy.reset()
    made.replace(0, predecessor_dead=False, listen=f"{made.address(8)}:7070",
                 metricsListen="", advertise=made.address(8))
    made.wait_status(lambda s: s["phase"] == "Running", "the new coordinator's generation")
    first.cont()
    first.wait_log(f"the lease of generation {generation} ran out")
    holds_for(1, lambda: not first.ranks(), "the old coordinator has a rank")
    of_first = [number(each) for each, _ in started_in(made) if number(each)[0] == first.attempt]
    assert max(of_first) == number(generation)
    first.kill()
    finish(made)


# ---- a line is cut ----


@pytest.mark.parametrize("how", ["silent", "reset"])
def test_ranks_survive_connection_cut_of_two_seconds(gang, how):
    made = gang(machines=2, proxied=[1])
    made.start()
    made.wait_running()
    ranks = [agent.ranks() for agent in made.agents.values()]
    made.proxies[1].cut()
    if how == "reset":
        made.proxies[1].reset()
    holds_for(2, lambda: [a.ranks() for a in made.agents.values()] == ranks, "the ranks live on")
    made.proxies[1].heal()
    made.wait_status(
        lambda s: s["machines"][1]["connected"] and s["machines"][1]["silentForSeconds"] < 1,
        "machine 1 to be heard again")
    status = made.status()
    assert (status["phase"], status["generation"]) == ("Running", "1-1")
    assert [agent.ranks() for agent in made.agents.values()] == ranks
    finish(made)


def test_connection_cut_longer_than_lease_ends_generation_on_both_sides(gang):
    made = gang(machines=2, policy=SHORT, proxied=[1])
    made.start()
    made.wait_running()
    made.proxies[1].cut()
    wait_until(lambda: not any(made.left_of(a) for a in made.agents.values()), "all ranks to die")
    made.wait_status(lambda s: s["machines"][1]["state"] == "Lost", "machine 1 to be lost")
    made.proxies[1].heal()
    made.wait_running(after="1-1")
    status = made.status()
    assert status["lastFailure"]["cause"] == "MachineLost"
    assert status["counters"]["processFailures"] == 0
    finish(made)


def test_agent_reports_killed_rank_after_connection_returns(gang):
    made = gang(machines=2, proxied=[1])
    made.start()
    made.wait_running()
    made.proxies[1].cut()
    os.kill(made.agents[1].ranks()[1], signal.SIGKILL)
    made.wait_status(lambda s: True, "a member", machine=1)
    made.proxies[1].heal()
    made.wait_running(after="1-1")
    failure = made.status()["lastFailure"]
    assert (failure["rank"], failure["signal"]) == (1, signal.SIGKILL)
    finish(made)


# ---- commits ----


def ask_commit(agent, name):
    """A socket on which the answer comes: what lockstep.commit() asks before it renames."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(30)
    client.connect(str(agent.folder / "run/agent.sock"))
    rank = agent.machine
    client.sendall(json.dumps({"rank": rank, "id": 7, "commit": name}).encode() + b"\n")
    return client


def answer(client):
    with client, client.makefile() as lines:
        return json.loads(lines.readline())


@pytest.mark.parametrize("machine", [0, 1])
def test_gang_refuses_commit_when_machine_1_is_unreachable(gang, machine):
    made = gang(machines=2, policy=SHORT, proxied=[1], checkpoint="checkpoints")
    made.start()
    made.wait_running()
    made.proxies[1].cut()
    refusal = answer(ask_commit(made.agents[machine], "step-1"))
    assert refusal["ok"] is False, refusal
    made.proxies[1].heal()
    generation = made.wait_running(after="1-1")["generation"]
    granted = answer(ask_commit(made.agents[machine], "step-2"))
    assert granted["ok"] and f"/{generation}/000001.step-2" in granted["final"]
    finish(made)


@pytest.mark.parametrize("machine", [0, 1])
def test_commit_waits_for_connection_after_brief_cut(gang, machine):
    made = gang(machines=2, proxied=[1], checkpoint="checkpoints")
    made.start()
    made.wait_running()
    made.proxies[1].cut()
    client = ask_commit(made.agents[machine], "step-1")
    made.wait_status(lambda s: s["phase"] == "Running", "machine 0")
    made.proxies[1].heal()
    assert answer(client)["ok"]
    finish(made)


def test_generation_resumes_from_last_committed_checkpoint(gang):
    made = gang(machines=2, checkpoint="checkpoints")
    made.start()
    made.wait_running()
    for name in ("step-1", "step-2"):
        os.makedirs(answer(ask_commit(made.agents[0], name))["final"])
    # Never asked for, and named like what is never read: not a commit.
    (made.checkpoint / "checkpoints/1-1/step-3").mkdir()
    made.tell(1, 3)
    status = made.wait_running(after="1-1")
    assert status["history"][-1]["resume"].endswith("/1-1/000002.step-2")
    assert number(status["generation"]) == (1, 2)
    finish(made)


def test_job_resumes_from_newest_commit_after_etcd_restore_lowers_attempt(gang):
    """As by an etcd that is restored: status knows 5, and the checkpoint folder 9."""
    made = gang(machines=1, checkpoint="checkpoints")
    for attempt, name in ((5, "step-500"), (9, "step-900")):
        made.epoch = attempt - 1
        made.start()
        made.wait_running()
        os.makedirs(answer(ask_commit(made.agents[0], name))["final"])
        made.agents[0].kill()
    restored = made.start_agent(0, 6)
    assert restored.process.wait(timeout=60) == 75, restored.log
    assert restored.termination["needsEpoch"] == 10
    assert "attempt 9 of machine 0 has begun generations already" in restored.log
    assert sorted(os.listdir(made.checkpoint / "generations")) == ["5-1", "9-1"]
    made.start()
    assert made.wait_running()["history"][-1]["resume"].endswith("/9-1/000001.step-900")
    assert made.agents[0].attempt == 10
    finish(made)
