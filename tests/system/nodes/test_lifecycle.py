"""What users do with a job, from apply to the end."""

import re

import pytest
from e2e_job import PATIENCE, Job, ranks
from paths import ROOT
from waiting import wait_until

EXAMPLE = ROOT / "examples/trainingjob.yaml"


def test_the_readmes_example_trains_across_two_nodes(site):
    site.kubectl("apply", "-f", EXAMPLE)
    job = Job(site, "gpt")
    status = job.wait_state("Succeeded")
    assert len({pod.spec.node_name for pod in job.pods()}) == 2
    assert status["restarts"]["total"] == 0 and status["verdict"]["exitCode"] == 0
    assert re.fullmatch("[0-9a-f]{64}", job.weights())


def test_suspended_job_saves_checkpoint_and_resumes_from_it(site, undisturbed):
    job = site.train()
    saved = job.wait_trained()
    job.patch(suspend=True)
    job.wait_state("Suspended")
    assert job.live() == {} and job.ranks() == []
    # The step at which all ranks stopped; older ones than it may have gone meanwhile.
    assert max(job.checkpoints()) > max(saved)
    job.patch(suspend=False)
    status = job.wait_state("Succeeded")
    assert "resuming at step" in job.log()
    assert status["restarts"]["application"] == status["restarts"]["infrastructure"] == 0
    assert job.weights() == undisturbed


@pytest.mark.slow
def test_job_scaled_from_4_to_2_to_4_machines_ends_with_same_weights(site, undisturbed):
    job = site.train(numMachines=4, processesPerMachine=1)
    seen = job.wait_trained()
    for machines in (2, 4):
        site.kubectl("scale", "tj", job.name, f"--replicas={machines}")
        job.wait(lambda s, n=machines: s["ready"] == f"{n}/{n}" and s["state"] == "Running",
                 f"{machines} machines")
        wait_until(lambda n=machines: len(job.live()) == n, f"{machines} pods", PATIENCE, 0.1)
        seen |= job.wait_trained(more_than=seen)
    job.wait_state("Succeeded")
    assert job.weights() == undisturbed


@pytest.mark.slow
def test_machine_on_drained_node_moves_without_charging_replacement_budget(site, undisturbed):
    job = site.train(failurePolicy={"maxMachineReplacements": 0})
    job.wait_trained()
    node, before = job.node(1), job.uids()
    try:
        site.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data",
                     "--pod-selector=lockstep.dev/job", "--timeout=200s")
        job.wait(lambda s: s["epoch"] == 2 and s["state"] == "Running", "the replacement")
        assert job.node(1) != node and job.uids()[0] == before[0]
    finally:
        site.kubectl("uncordon", node)
    status = job.wait_state("Succeeded")
    assert status["restarts"]["infrastructure"] == 0
    assert job.weights() == undisturbed


def test_a_deleted_job_leaves_nothing_behind(site):
    job = site.train()
    job.wait_trained()
    uid = job.uid()
    job.delete()
    job.wait_gone()
    assert ranks(uid) == []

    def left():
        return site.kubectl("get", "services,secrets,pods", "-l", "lockstep.dev/job", "-o", "name")

    # The garbage collector takes its time for what the job owned.
    wait_until(lambda: not left(), lambda: f"what the job owned to go: {left()}", PATIENCE, 0.2)
