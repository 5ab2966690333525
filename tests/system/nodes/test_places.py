"""Jobs that wait for room, for a name server, or for something that will never come."""

import json
import re

import pytest
from e2e_install import BUSYBOX
from e2e_job import PATIENCE
from waiting import wait_until

NOTHING = ["sleep", "0"]  # what a process does
NOBODY = "registry.invalid/nobody/nothing:1"


def asks(cpu):
    return {"resourcesPerProcess": {"cpu": cpu}, "processesPerMachine": 1,
            "placement": {"onePerNode": "Required"}}


@pytest.mark.slow
def test_two_jobs_that_fit_only_one_at_a_time_both_succeed(site):
    cpu = f"{site.stack.cpus() * 600}m"
    jobs = [site.program(name, ["sleep", "8"], numMachines=len(site.stack.nodes.names),
                         health={"startTimeout": "5s"}, **asks(cpu)) for name in ("one", "other")]
    for job in jobs:
        job.wait_state("Succeeded")


def test_urgent_pod_preempts_only_the_spare_and_operator_replaces_it_afterwards(site):
    cpu = f"{site.stack.cpus() * 600}m"
    job = site.program("gpt", ["sleep", "600"], spareMachines=1, **asks(cpu))

    def spare_ready(status):
        return status["state"] == "Running" and status["machines"].get("spares") == 1

    job.wait(spare_ready, "a spare")
    before, [spare] = job.uids(), job.spares()
    for manifest in ({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                      "metadata": {"name": site.namespace}, "value": 1000},
                     {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"},
                      "spec": {"priorityClassName": site.namespace,
                               "terminationGracePeriodSeconds": 0,
                               "nodeSelector": {"kubernetes.io/hostname": spare.spec.node_name},
                               "containers": [{"name": "it", "image": BUSYBOX,
                                               "command": ["sleep", "600"],
                                               "resources": {"requests": {"cpu": cpu}}}]}}):
        site.kubectl("create", "-f", "-", input=json.dumps(manifest))
    try:
        says(job, "1 of 1 spare machines found no node: .*Insufficient cpu")
        site.kubectl("delete", "pod", "urgent", "--wait=false")
        job.wait(spare_ready, "another spare")
    finally:
        site.kubectl("delete", "priorityclass", site.namespace)
    assert job.uids() == before
    assert [each.metadata.uid for each in job.spares()] != [spare.metadata.uid]
    assert job.status()["restarts"]["total"] == 0


def test_jobs_start_and_heal_without_a_name_server(site, undisturbed):
    with site.stack.without_dns():
        job = site.train()
        job.wait_trained()
        job.kill(rank=1)
        site.kubectl("delete", "pod", "gpt-1", "--wait=false")
        job.wait_state("Succeeded")
    assert "gpt-1-r2" in {pod.metadata.name for pod in job.pods()}
    assert job.weights() == undisturbed


def says(job, pattern):
    job.wait(lambda s: re.search(pattern, s.get("reason", "")), f"a reason like {pattern!r}")


def test_status_reason_names_cpu_shortage_of_job_that_fits_on_no_node(site):
    says(site.program("big", NOTHING, **asks("1000")), r"2 of 2 machines .*Insufficient cpu")


def test_status_reason_names_gpu_resource_that_no_node_has(site):
    job = site.program("gpus", NOTHING, resourcesPerProcess={"gpu": 1})
    says(job, r"Insufficient nvidia\.com/gpu")


@pytest.mark.slow
def test_status_reason_names_image_that_cannot_be_pulled(site):
    says(site.program("image", NOTHING, image=NOBODY), rf"cannot start .*{re.escape(NOBODY)}")


def test_status_reason_names_claim_that_does_not_exist(site):
    job = site.program("claim", NOTHING, checkpoint={"claim": "nowhere", "path": "/checkpoints"})
    says(job, r'persistentvolumeclaim "nowhere" not found')


def test_status_reason_reports_claim_without_volume(site):
    site.claim("unbound")
    job = site.program("claim", NOTHING, checkpoint={"claim": "unbound", "path": "/checkpoints"})
    says(job, "unbound immediate PersistentVolumeClaims")


def test_status_reason_reports_volume_that_only_one_node_can_mount(site):
    site.volume("local", node=site.stack.nodes.names[0])
    job = site.program("split", NOTHING, checkpoint={"claim": "local", "path": "/checkpoints"},
                       placement={"onePerNode": "Required"})
    says(job, r"1 of 2 machines .* its volume is available on other nodes only: .* ReadWriteMany")


@pytest.mark.slow
def test_agents_out_of_operators_reach_run_ranks_and_status_reason_names_port(site):
    with site.stack.without_agents():
        job = site.program("apart", ["sleep", "600"])
        says(job, r"cannot reach the job's agents, port 7070 .*NetworkPolicy")
        wait_until(lambda: len(job.ranks()) == 4, "all ranks", PATIENCE, 0.1)
    job.wait_state("Running")


def test_job_in_restricted_namespace_reports_missing_run_as_non_root(site):
    site.kubectl("label", "namespace", site.namespace,
                 "pod-security.kubernetes.io/enforce=restricted")
    job = site.program("rooted", NOTHING)
    says(job, r"may not be created: .*runAsNonRoot")
    job.delete()
    job.wait_gone()
    secure = {"runAsNonRoot": True, "runAsUser": 1000}
    site.program("secure", NOTHING,
                 template={"spec": {"securityContext": secure}}).wait_state("Succeeded")


def test_job_reports_exhausted_quota_and_succeeds_after_quota_is_deleted(site):
    site.kubectl("create", "quota", "few", "--hard=pods=1")
    job = site.program("many", NOTHING)
    says(job, r"may not be created: .*exceeded quota: few")
    site.kubectl("delete", "quota", "few")
    job.wait_state("Succeeded")
