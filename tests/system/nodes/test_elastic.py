"""spec.elastic on real nodes: three machines, one on each, and never a fourth node."""

import contextlib
import os
import re
import signal
import time

import pytest
from e2e_job import PATIENCE, members
from e2e_site import TRAINER as E2E_TRAINER
from kubernetes.client import CoreV1Api
from waiting import wait_until

pytestmark = pytest.mark.slow

STEPS = 3000
# Of 3 and of 2 machines sums differ in their last bits, so that a step at a wrong size shows.
TRAINER = {"globalBatchSize": 12, "decaySteps": STEPS, "steps": STEPS, "checkpointEvery": 25}


def train(site, elastic, trainer=None, **spec):
    return site.train(numMachines=3, processesPerMachine=1, placement={"onePerNode": "Required"},
                      trainer={**TRAINER, **(trainer or {})},
                      elastic={"sizes": [2, 3], "growAfter": "0s", **elastic}, **spec)


def by_hand(site, *sizes):
    """The weights of one job after the other, of (machines, steps until then)."""
    site.volume("hand")
    resume = "Auto"
    for machines, until in sizes:
        job = site.apply("hand", numMachines=machines, processesPerMachine=1,
                         trainer={**E2E_TRAINER, **TRAINER, "steps": until},
                         checkpoint={"claim": "hand", "path": "/checkpoints", "resume": resume})
        job.wait_state("Succeeded")
        weights = job.weights()
        last = max(job.checkpoints(), key=lambda each: int(each.rpartition("step-")[2]))
        resume = f"/checkpoints/checkpoints/{last}"
        job.delete()
        job.wait_gone()
    return weights


def numbers(who):
    """Of machines as status names them: 0-1,3."""
    ends = [part.split("-") for part in (who or "").split(",") if part]
    return [n for end in ends for n in range(int(end[0]), int(end[-1]) + 1)]


def without(index):
    return {1: "0,2", 2: "0-1"}[index]


def away_from_leader(site, job):
    """A machine but 0, on a node whose end leaves the operator that leads alive."""
    leader = site.stack.node_of(site.stack.leader())
    return 1 if job.node(1) != leader else 2


def machine_0_beside_leader(site, is_beside, **spec):
    """What train() makes, with machine 0 on the node of the operator that leads, or on another: jobs
    are made until chance has it so."""
    leader = site.stack.node_of(site.stack.leader())
    for attempt in range(30):
        job = train(site, name=f"gpt{attempt}", **spec)
        job.wait(lambda s: s["state"] in ("Starting", "Running"), "all pods on their nodes")
        if (job.node(0) == leader) == is_beside:
            job.wait_trained()
            return job
        job.delete()
        job.wait_gone()
    raise AssertionError("machine 0 never came where it should")


def finish(site, job):
    """The job's end: weights of as many steps at each size as its log tells of."""
    status = job.wait_state("Succeeded")
    shrunk, grown = [int(step) for step in re.findall(r"resuming at step (\d+)", job.log())]
    assert 0 < shrunk < grown
    assert job.weights() == by_hand(site, (3, shrunk), (2, grown), (3, STEPS))
    return status


@contextlib.contextmanager
def drained(site, node):
    """Of jobs' pods; others may run there again afterwards."""
    try:
        site.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data",
                     "--pod-selector=lockstep.dev/job", "--timeout=200s")
        yield
    finally:
        site.kubectl("uncordon", node)


def test_gang_shrinks_when_node_is_lost_and_grows_back_with_expected_weights(
        site):
    job = train(site, {"shrinkAfter": "3s"}, failurePolicy={"machineLostAfter": "3s"})
    job.wait_trained()
    before, index = job.uids(), away_from_leader(site, job)
    whole = job.status()["gangGeneration"]
    began = time.monotonic()
    with site.stack.powerless(job.node(index)):
        status = job.wait_gang(without(index), whole, "the gang of two")
        print(f"machine {index}'s node lost to two machines running: "
              f"{time.monotonic() - began:.1f} s, 3 s of them lease and 3 s shrinkAfter")
        rank = job.stop_rank(status)
        began = time.monotonic()
    job.wait(lambda s: members(s) == "0-2", "growth")
    print(f"its power back to growth decided: {time.monotonic() - began:.1f} s")
    assert job.status()["gangGeneration"] == status["gangGeneration"]
    os.kill(rank, signal.SIGCONT)
    began = time.monotonic()
    job.wait_gang("0-2", status["gangGeneration"], "the gang of three again")
    print(f"the next step to three machines running: {time.monotonic() - began:.1f} s")
    after = job.uids()
    assert {i for i in after if after[i] != before[i]} == {index}
    status = finish(site, job)
    assert status["restarts"]["application"] == 0


@pytest.mark.parametrize("led", [False, True], ids=["alone", "with_the_operator_that_leads"])
def test_machine_0_takes_node_of_another_machine_when_its_own_node_is_lost(site, led):
    job = machine_0_beside_leader(site, led, elastic={"shrinkAfter": "3s"},
                                  failurePolicy={"machineLostAfter": "3s"})
    before, whole = job.uids(), job.status()["gangGeneration"]
    began = time.monotonic()
    with site.stack.powerless(job.node(0)):
        status = job.wait_gang("0-1", whole, "the gang of two")
        print(f"machine 0's node lost to two machines running: {time.monotonic() - began:.1f} s, "
              f"3 s of them lease and 3 s shrinkAfter"
              + (", and another operator leads" if led else ""))
        rank = job.stop_rank(status)
    job.wait(lambda s: members(s) == "0-2", "growth")
    os.kill(rank, signal.SIGCONT)
    job.wait_gang("0-2", status["gangGeneration"], "the gang of three again")
    after = job.uids()
    assert {i for i in after if after[i] != before[i]} == {0, 2}
    finish(site, job)


def test_shrunken_gang_accepts_scale_up_and_grows_to_available_nodes(site):
    job = train(site, {"shrinkAfter": "3s"}, {"steps": 100_000},
                failurePolicy={"machineLostAfter": "3s"})
    job.wait_trained()
    whole = job.status()["gangGeneration"]
    with site.stack.powerless(job.node(away_from_leader(site, job))):
        status = job.wait(lambda s: len(numbers(members(s))) == 2 and s["state"] == "Running"
                          and s["gangGeneration"] != whole, "the gang of two")
        before = status["gangGeneration"]
        site.kubectl("scale", "tj", "gpt", "--replicas=4")
        began = time.monotonic()
        status = job.wait(lambda s: s.get("replicas") == 4 and len(numbers(members(s))) == 2
                          and s["state"] == "Running" and s["gangGeneration"] != before,
                          "two of four machines")
        print(f"four asked for to two of them running: {time.monotonic() - began:.1f} s, "
              "3 s of them shrinkAfter")
        assert numbers(members(status))[0] == 0
    before = status["gangGeneration"]
    status = job.wait(lambda s: len(numbers(members(s))) == 3 and s["state"] == "Running"
                      and s["gangGeneration"] != before, "three of four machines")
    assert status["replicas"] == 4


def test_gang_shrinks_at_once_and_loses_no_step_when_node_is_drained(site):
    job = train(site, {"shrinkAfter": "1h"}, failurePolicy={"maxMachineReplacements": 0})
    job.wait_trained()
    before, whole = job.uids(), job.status()["gangGeneration"]
    node = job.node(2)
    began = time.monotonic()
    with drained(site, node):
        status = job.wait_gang("0-1", whole, "the gang of two")
        print(f"drain to two machines running: {time.monotonic() - began:.1f} s")
        rank = job.stop_rank(status)
    job.wait(lambda s: members(s) == "0-2", "growth")
    os.kill(rank, signal.SIGCONT)
    job.wait_gang("0-2", status["gangGeneration"], "the gang of three again")
    after = job.uids()
    assert {i for i in after if after[i] != before[i]} == {2}
    status = finish(site, job)
    assert [each.get("lostSteps", 0) for each in status["history"]] == [0, 0]
    assert status["restarts"]["infrastructure"] == 0


def test_lost_machine_is_not_charged_once_kubernetes_marks_its_node_unreachable(site):
    job = train(site, {"shrinkAfter": "3s"}, {"steps": 100_000},
                failurePolicy={"machineLostAfter": "3s", "maxMachineReplacements": 0})
    job.wait_trained()
    index = away_from_leader(site, job)
    node, whole = job.node(index), job.status()["gangGeneration"]
    with site.stack.powerless(node):
        small = job.wait_gang(without(index), whole, "the gang of two")
        assert small["elastic"]["silent"] == [{"attempt": 1, "machines": str(index)}]

        def noticed():
            return any(taint.key == "node.kubernetes.io/unreachable"
                       for taint in CoreV1Api(site.client).read_node(node).spec.taints or [])

        wait_until(noticed, f"Kubernetes to notice that {node} is dead", PATIENCE, 0.5)
        status = job.wait(lambda s: "silent" not in s["elastic"], "the loss to be its node's")
        assert status["gangGeneration"] == small["gangGeneration"]
    status = job.wait_gang("0-2", small["gangGeneration"], "the gang of three again")
    assert status["counters"].get("replacements", 0) == 0
