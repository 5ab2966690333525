"""Any rank, agent, guard or the coordinator is killed in every state of the protocol: the job goes
on, reaches the right verdict, and leaves nothing behind."""

import os
import signal

import processes
import pytest
from check_pairs import problems, states
from kill_states import UNREACHABLE, VICTIMS, WAYS
from tls import binary
from waiting import wait_until

STATES = states(binary("lockstep-gang-states"))
PAIRS = [(s, v) for s in STATES for v in VICTIMS if (s, v) not in UNREACHABLE]


def test_every_state_and_victim_has_a_test_or_a_reason():
    assert problems(STATES) == []


def kill(gang, victim, machine):
    if victim == "coordinator":
        return gang.agents[0].kill()
    agent = gang.agents[machine]
    if victim == "agent":
        return agent.kill()
    if victim == "guard":
        pid = wait_until(lambda: agent.guard, f"a guard of {agent}")
    else:
        pid = wait_until(lambda: min(agent.ranks().values(), default=None), f"a rank of {agent}")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes.alive(pid), f"{victim} {pid} to die")
    return None


def finish(scene, charged):
    """The gang heals, and does its work to the end."""
    gang = scene.gang
    if not scene.over:
        failures = scene.failures + charged
        counted = lambda status: status["counters"]["processFailures"] >= failures
        status = gang.heal_until_running(counted)
        assert status["counters"]["processFailures"] == failures
        gang.open_gates()
    told = gang.verdict(insist=not scene.over)
    assert told["exitCode"] == 0, told


@pytest.mark.parametrize(("state", "victim"), PAIRS, ids=lambda x: "".join(x))
def test_job_succeeds_after_victim_is_killed_in_any_state(gang, state, victim):
    scene = WAYS[state](gang)
    kill(scene.gang, victim, scene.machine)
    scene.release()
    charged = int(victim == "rank" and scene.charged)
    finish(scene, charged + (0 if victim == "coordinator" else scene.unjudged))


@pytest.mark.parametrize("victim", VICTIMS)
def test_job_succeeds_after_second_kill_right_after_first_kill(gang, victim):
    scene = WAYS["coordinator", "Running"](gang)
    generation = scene.gang.status()["generation"]
    kill(scene.gang, victim, 1)
    scene.gang.heal()
    if victim == "rank":
        scene.gang.wait_running(after=generation)
    kill(scene.gang, victim, 2 if victim == "rank" else 1)
    finish(scene, charged=2 if victim == "rank" else 0)


def test_job_succeeds_after_simultaneous_kills_on_every_machine(gang):
    """Two of three agents, all ranks of the third and its guard."""
    scene = WAYS["coordinator", "Running"](gang)
    first, second, third = (scene.gang.agents[machine] for machine in range(3))
    for pid in [third.guard, *third.ranks().values(), second.pid, first.pid]:
        os.kill(pid, signal.SIGKILL)
    scene.gang.heal_until_running()
    scene.gang.open_gates()
    assert scene.gang.verdict()["exitCode"] == 0


def test_agent_replaces_killed_guard_and_ranks_keep_running(gang):
    scene = WAYS["coordinator", "Running"](gang)
    agent = scene.gang.agents[1]
    guard, ranks = agent.guard, agent.ranks()
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: agent.guard not in (None, guard), "another guard")
    assert agent.ranks() == ranks
    assert scene.gang.status()["generation"] == "1-1"
    finish(scene, charged=0)


def test_ranks_die_when_their_agent_and_guard_are_killed(gang):
    scene = WAYS["coordinator", "Running"](gang)
    agent = scene.gang.agents[1]
    os.kill(agent.pid, signal.SIGSTOP)
    os.kill(agent.guard, signal.SIGKILL)
    agent.kill()
    wait_until(lambda: not scene.gang.left_of(agent), "its ranks to die")
    finish(scene, charged=0)
