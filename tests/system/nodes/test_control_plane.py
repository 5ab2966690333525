"""Operators, API server and nodes that go, together too."""

import time

import pytest
from e2e_job import PATIENCE
from waiting import wait_until


def generations(job):
    return {rank.generation for rank in job.ranks()}


def test_new_leader_takes_over_from_killed_leader_and_job_keeps_its_pods(site, undisturbed):
    stack, job = site.stack, site.train()
    job.wait_trained()
    before, holder = job.uids(), stack.holder()
    stack.kill_operator(stack.leader())
    job.kill(rank=3)
    stack.wait_leader(other_than=holder)
    job.wait_state("Succeeded")
    assert job.weights() == undisturbed
    assert {pod.metadata.uid for pod in job.pods()} == set(before.values())


@pytest.mark.slow
def test_gang_restarts_killed_rank_while_no_operator_runs_for_a_minute(site, undisturbed):
    job = site.train()
    job.wait_trained()
    with site.stack.without_operators():
        back_at = time.monotonic() + 60
        first = {rank.generation for rank in job.ranks()}
        job.kill(rank=2)
        wait_until(lambda: len(job.ranks()) == 4 and not first & generations(job),
                   "the next generation", PATIENCE, 0.1)
        wait_until(lambda: time.monotonic() > back_at, "a minute to pass", PATIENCE, 0.5)
    status = job.wait_state("Succeeded")
    assert status["restarts"]["application"] == 1
    assert job.weights() == undisturbed


@pytest.mark.slow
def test_job_keeps_its_pods_and_ranks_when_api_server_restarts(site, undisturbed):
    job = site.train()
    job.wait_trained()
    before = job.uids()
    site.stack.nodes.restart("kube-apiserver")
    status = job.wait_state("Succeeded")
    assert status["restarts"]["total"] == 0
    assert {pod.metadata.uid for pod in job.pods()} == set(before.values())
    assert job.weights() == undisturbed


@pytest.mark.slow
def test_job_succeeds_when_leaders_node_and_another_node_lose_power_at_once(site, undisturbed):
    stack, job = site.stack, site.train(numMachines=4, processesPerMachine=1)
    job.wait_trained()
    holder, leader = stack.holder(), stack.leader()
    # Two of three nodes. The scheduler goes on sending pods there until it has noticed.
    left = {p.spec.node_name for p in stack.operators() if p.metadata.name != leader}
    with stack.powerless(*(set(stack.nodes.names) - left)):
        stack.wait_leader(other_than=holder)
        status = job.wait_state("Succeeded")
    assert status["restarts"]["infrastructure"] > 0
    assert job.weights() == undisturbed
