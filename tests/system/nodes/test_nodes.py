"""Nodes that die, and nodes that only seem to."""

import time

import pytest
from e2e_install import BUSYBOX
from e2e_job import PATIENCE
from waiting import holds_for, wait_until

# An image that takes a minute to come, where there is no file of the node's name.
PULL = {"name": "pull", "image": BUSYBOX, "volumeMounts": [{"name": "images", "mountPath": "/images"}],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "command": ["sh", "-c", "for i in $(seq 600); do test -e /images/$NODE && exit; sleep 0.1; done"]}


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


def test_operator_moves_machine_1_off_dead_node_and_job_resumes_from_checkpoint(site, undisturbed):
    lose_power(site, 1, undisturbed)


def test_lost_machine_restarts_on_node_of_spare(site):
    site.volume("images")
    images = site.folder / "images"
    job = site.train(trainer={"steps": 100_000}, spareMachines=1, processesPerMachine=1,
                     placement={"onePerNode": "Required"}, failurePolicy={"machineLostAfter": "10s"},
                     template={"spec": {"initContainers": [PULL], "volumes": [
                         {"name": "images", "persistentVolumeClaim": {"claimName": "images"}}]}})

    def nodes():
        found = [pod.spec.node_name for pod in job.pods()]
        return found if len(found) == 2 and all(found) else None

    for node in wait_until(nodes, "nodes for two machines", PATIENCE, 0.2):
        (images / node).touch()
    job.wait(lambda s: s["state"] == "Running" and s["machines"].get("spares") == 1, "a spare")
    [spare] = job.spares()
    (images / spare.spec.node_name).touch()
    leader = site.stack.node_of(site.stack.leader())
    index = 1 if job.node(1) != leader else 0
    node, before = job.node(index), job.uids()
    (images / node).unlink()
    began = time.monotonic()
    with site.stack.powerless(node):
        wait_replaced(job, index, before)
        print(f"machine {index}'s node lost to all ranks running: {time.monotonic() - began:.1f} s, "
              "10 s of them lease")
        assert job.node(index) == spare.spec.node_name


@pytest.mark.slow
def test_operator_moves_machine_0_off_dead_node_and_job_resumes_from_checkpoint(site, undisturbed):
    lose_power(site, 0, undisturbed)


def test_node_unreachable_for_3_seconds_keeps_its_pods_and_ranks(site, undisturbed):
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
@pytest.mark.parametrize("index", [0, 1])
def test_ranks_on_node_unreachable_for_a_minute_end_before_their_machine_moves(
        site, undisturbed, index):
    job = site.train()
    job.wait_trained()
    node, before = job.node(index), job.uids()
    mended_at = time.monotonic() + 60
    with site.stack.unreachable(node):
        wait_until(lambda: fenced(job, before[index]), "the old ranks to die", PATIENCE, 0.2)
        wait_replaced(job, index, before)
        assert job.node(index) != node
        wait_until(lambda: time.monotonic() > mended_at, "a minute to pass", PATIENCE, 0.5)
    job.wait_state("Succeeded")
    assert job.weights() == undisturbed
