"""Nodes that die, and nodes that only seem to."""

import time

import pytest
from e2e_job import PATIENCE
from waiting import holds_for, wait_until


def fenced(job, pod):
    """Whether a pod's ranks are dead; never may they run beside those of another generation."""
    ranks = job.ranks()
    old = {rank.generation for rank in ranks if rank.pod == pod}
    assert not old or {rank.generation for rank in ranks} == old
    return not old


def wait_replaced(job, index, before):
    """The gang with another pod for one machine, on another node, and all other pods as before."""
    job.wait(lambda s: s["epoch"] == 2 and s["state"] == "Running", "the replacement")
    after = job.uids()
    assert {i for i in after if after[i] != before[i]} == {index}


def lose_power(site, index, undisturbed):
    job = site.train()
    job.wait_trained()
    node, before = job.node(index), job.uids()
    with site.stack.powerless(node):
        wait_replaced(job, index, before)
        assert job.node(index) != node
        status = job.wait_state("Succeeded")
    assert status["restarts"]["infrastructure"] == 1
    assert "resuming at step" in job.log()
    assert job.weights() == undisturbed


def test_a_node_without_power_is_left_and_training_goes_on_from_the_checkpoint(site, undisturbed):
    lose_power(site, 1, undisturbed)


@pytest.mark.slow
def test_machine_0_is_replaced_like_any_other(site, undisturbed):
    lose_power(site, 0, undisturbed)


def test_a_node_out_of_reach_for_3_seconds_loses_nothing(site, undisturbed):
    job = site.train()
    job.wait_trained()
    before, ranks = job.uids(), job.ranks()
    with site.stack.unreachable(job.node(1)):
        holds_for(3, lambda: set(job.ranks()) == set(ranks), "the same ranks")
    status = job.wait_state("Succeeded")
    assert status["restarts"]["total"] == 0
    assert {pod.metadata.uid for pod in job.pods()} == set(before.values())
    assert job.weights() == undisturbed


@pytest.mark.slow
def test_a_node_out_of_reach_for_a_minute_is_left_and_its_ranks_die_by_themselves(
        site, undisturbed):
    job = site.train()
    job.wait_trained()
    node, before = job.node(1), job.uids()
    mended_at = time.monotonic() + 60
    with site.stack.unreachable(node):
        wait_until(lambda: fenced(job, before[1]), "the old ranks to die", PATIENCE, 0.2)
        wait_replaced(job, 1, before)
        assert job.node(1) != node
        wait_until(lambda: time.monotonic() > mended_at, "a minute to pass", PATIENCE, 0.5)
    job.wait_state("Succeeded")
    assert job.weights() == undisturbed
