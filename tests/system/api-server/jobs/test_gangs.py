"""Gangs that a scheduler places as a whole: the PodGroups of spec.scheduling.gang, with the real
operator and real agents. Coscheduling's as their own CustomResourceDefinition takes them, and
Volcano's as one takes them that has their shape; nodes are given as by no scheduler of theirs.
Kubernetes' own with its real scheduler, in clusters that have its gates
in full or in part."""

import contextlib
import json

import parts
import pytest
from agent_kubelet import AgentKubelet
from cluster import cluster_in
from jobs import Jobs, operator
from waiting import wait_until

GROUPS = "podgroups.scheduling.x-k8s.io"
GROUPS_OF_VOLCANO = "podgroups.scheduling.volcano.sh"


@pytest.fixture
def definition():
    """scheduler-plugins' own, of the version that Kueue knows."""
    return (parts.source("kueue", "sigs.k8s.io/scheduler-plugins")
            / "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml").read_text()


def definition_of_volcano():
    """Of what is said in a PodGroup; its API server drops everything else."""
    said = {"minMember": {"type": "integer"}, "queue": {"type": "string"},
            "priorityClassName": {"type": "string"}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": said}}}
    return json.dumps({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": GROUPS_OF_VOLCANO},
        "spec": {"group": "scheduling.volcano.sh", "scope": "Namespaced",
                 "names": {"kind": "PodGroup", "plural": "podgroups"},
                 "versions": [{"name": "v1beta1", "served": True, "storage": True,
                               "schema": {"openAPIV3Schema": schema}}]}})


@contextlib.contextmanager
def served(cluster, name, definition):
    """A CustomResourceDefinition, until the end."""
    cluster.kubectl("create", "-f", "-", input=definition)
    try:
        wait_until(lambda: cluster.kubectl("get", name, "-A", check=False).returncode == 0,
                   f"{name} to be served", 60, 0.05)
        yield
    finally:
        cluster.kubectl("delete", "crd", name)


def groups(jobs, kind=GROUPS):
    found = json.loads(jobs.kubectl("get", kind, "-o", "json"))["items"]
    return {each["metadata"]["name"]: each for each in found}


def members(jobs):
    """The group of each pod that has not ended."""
    found = json.loads(jobs.kubectl("get", "pods", "-o", "json"))["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["labels"].get("scheduling.x-k8s.io/pod-group")
            or pod["metadata"]["annotations"].get("scheduling.k8s.io/group-name") for pod in found
            if pod["status"]["phase"] in ("Pending", "Running")}


def until(gate):
    return f'while [ ! -e "{gate}" ]; do sleep 0.05; done'


def suspend(jobs, name, value):
    jobs.kubectl("patch", "tj", name, "--type=merge", "-p",
                 json.dumps({"spec": {"suspend": value}}))


def test_coscheduling_gang_has_a_pod_group_while_the_gang_has_pods(
        jobs, installed, definition, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", until(gate), scheduling={"gang": "Coscheduling"})
    lacking = jobs.wait("gpt", lambda status: "scheduler-plugins" in status.get("reason", ""),
                        "word of what is missing")
    assert lacking["state"] == "Pending" and "scheduling.x-k8s.io/v1alpha1" in lacking["reason"]
    assert members(jobs) == {}
    with served(installed, GROUPS, definition):
        status = jobs.wait_state("gpt", "Running")
        assert status["podGroup"] == {"name": "gpt-e1", "gang": "Coscheduling"}
        [group] = groups(jobs).values()
        assert group["metadata"]["name"] == "gpt-e1" and group["spec"]["minMember"] == 2
        assert group["metadata"]["ownerReferences"][0]["name"] == "gpt"
        assert members(jobs) == {"gpt-0": "gpt-e1", "gpt-1": "gpt-e1"}

        # A machine that is lost comes back in the same group, though somebody has deleted it.
        jobs.kubectl("delete", GROUPS, "gpt-e1")
        jobs.kubelet.process("gpt-1").kill()
        jobs.wait("gpt", lambda status: status["state"] == "Running"
                  and status["restarts"]["infrastructure"] == 1, "the replacement")
        assert set(members(jobs).values()) == {"gpt-e1"} and groups(jobs).keys() == {"gpt-e1"}

        suspend(jobs, "gpt", True)
        jobs.wait("gpt", lambda status: status["state"] == "Suspended"
                  and "podGroup" not in status, "the group to be gone")
        assert groups(jobs) == {} and members(jobs) == {}
        suspend(jobs, "gpt", False)
        status = jobs.wait_state("gpt", "Running")
        name = f"gpt-e{status['epoch']}"
        assert name != "gpt-e1" and status["podGroup"]["name"] == name
        assert groups(jobs).keys() == {name} == set(members(jobs).values())
        gate.touch()
        jobs.wait("gpt", lambda status: status["state"] == "Succeeded"
                  and "podGroup" not in status, "the end")
        assert groups(jobs) == {}


def test_volcano_gang_has_a_pod_group_in_its_queue(jobs, installed, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", until(gate), annotations={"scheduling.volcano.sh/queue-name": "research"},
               scheduling={"gang": "Volcano"})
    lacking = jobs.wait("gpt", lambda status: "the cluster lacks Volcano"
                        in status.get("reason", ""), "word of what is missing")
    assert "scheduling.volcano.sh/v1beta1" in lacking["reason"] and members(jobs) == {}
    with served(installed, GROUPS_OF_VOLCANO, definition_of_volcano()):
        status = jobs.wait_state("gpt", "Running")
        assert status["podGroup"] == {"name": "gpt-e1", "gang": "Volcano"}
        [group] = groups(jobs, GROUPS_OF_VOLCANO).values()
        assert group["spec"] == {"minMember": 2, "queue": "research"}
        jobs.kubelet.process("gpt-1").kill()
        jobs.wait("gpt", lambda status: status["state"] == "Running"
                  and status["restarts"]["infrastructure"] == 1, "the replacement")
        assert set(members(jobs).values()) == {"gpt-e1"}
        gate.touch()
        jobs.wait("gpt", lambda status: status["state"] == "Succeeded"
                  and "podGroup" not in status, "the end")
        assert groups(jobs, GROUPS_OF_VOLCANO) == {}


def test_operator_reports_pod_group_of_another_owner_and_leaves_it_unchanged(
        jobs, installed, definition):
    with served(installed, GROUPS, definition):
        jobs.kubectl("create", "-f", "-", input=json.dumps({
            "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "gpt-e1"}, "spec": {"minMember": 7}}))
        jobs.apply("gpt", "true", scheduling={"gang": "Coscheduling"})
        jobs.wait("gpt", lambda status: "podgroup gpt-e1 exists and does not belong to this job"
                  in status.get("reason", ""), "word of the stranger")
        assert members(jobs) == {}
        suspend(jobs, "gpt", True)
        jobs.wait("gpt", lambda status: status["state"] == "Suspended"
                  and "podGroup" not in status, "the job to let go of it")
        assert groups(jobs)["gpt-e1"]["spec"]["minMember"] == 7
        suspend(jobs, "gpt", False)
        jobs.wait_state("gpt", "Succeeded")


# ---- Kubernetes' own ----

NATIVE = "podgroups.scheduling.k8s.io"
GANG = {"scheduling": {"gang": "Kubernetes"}, "schedulerName": "default-scheduler"}
# Of a node's 1000, of two processes a machine: one machine a node.
WHOLE_NODE = {"cpu": "300"}


@contextlib.contextmanager
def jobs_in(folder, gangs):
    """In a cluster of its own, with four nodes."""
    (folder / "cluster").mkdir()
    with cluster_in(folder / "cluster", "--gangs", gangs) as made:
        made.install_crd()
        with made.namespace("gangs") as namespace, \
                AgentKubelet(made, namespace, folder) as kubelet, \
                operator(made.kubeconfig, folder, "--namespace", namespace,
                         "--system-namespace", namespace):
            yield Jobs(made, namespace, kubelet, folder)


def native(jobs):
    return [each["metadata"]["name"]
            for each in json.loads(jobs.kubectl("get", NATIVE, "-o", "json"))["items"]]


def nodes_of(jobs, name):
    """The node of each of its machines that has one."""
    found = json.loads(jobs.kubectl("get", "pods", "-l", f"lockstep.dev/job={name}", "-o", "json"))
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in found["items"]
            if pod["status"]["phase"] in ("Pending", "Running") and pod["spec"].get("nodeName")}


@pytest.mark.slow
def test_kubernetes_gang_gets_all_its_nodes_or_none(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with jobs_in(tmp_path, "scheduler") as jobs:
        whole = {"resourcesPerProcess": WHOLE_NODE, **GANG}
        jobs.apply("small", until(first), numMachines=2, **whole)
        status = jobs.wait_state("small", "Running")
        assert status["podGroup"] == {"name": "small-e1", "gang": "Kubernetes"}
        jobs.apply("large", until(second), numMachines=4, **whole)
        jobs.wait("large", lambda status: "machines are not scheduled" in status.get("reason", ""),
                  "word that it waits")
        # Two nodes are free all the while, and two of its machines would fit.
        assert nodes_of(jobs, "large") == {} and len(nodes_of(jobs, "small")) == 2

        # A machine of the gang that runs is placed at once in the same group.
        jobs.kubelet.process("small-1").kill()
        jobs.wait("small", lambda status: status["state"] == "Running"
                  and status["restarts"]["infrastructure"] == 1, "the replacement")
        assert nodes_of(jobs, "large") == {} and native(jobs) == ["large-e1", "small-e1"]

        first.touch()
        jobs.wait_state("small", "Succeeded")
        jobs.wait_state("large", "Running")
        assert len(set(nodes_of(jobs, "large").values())) == 4
        second.touch()
        jobs.wait_state("large", "Succeeded")
        wait_until(lambda: native(jobs) == [], "the groups to be gone", 60, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("gangs", ["served", "api-server"])
def test_operator_reports_a_cluster_that_ignores_kubernetes_pod_groups(gangs, tmp_path):
    with jobs_in(tmp_path, gangs) as jobs:
        gate = tmp_path / "gate"
        jobs.apply("gpt", until(gate), **GANG)
        if gangs == "served":
            # The field by which pods would join is dropped without a word.
            status = jobs.wait("gpt", lambda status: "GenericWorkload" in status.get("reason", ""),
                               "word of the gate")
            assert status["state"] == "Pending" and "podgroup gpt-e1" in status["reason"]
            assert members(jobs) == {}
        else:
            status = jobs.wait("gpt", lambda status: "GangScheduling" in status.get("reason", ""),
                               "word of the scheduler")
            assert status["state"] == "Running" and "one by one" in status["reason"]
            gate.touch()
            jobs.wait_state("gpt", "Succeeded")


def test_operator_creates_no_pods_if_cluster_lacks_kubernetes_pod_groups(jobs):
    jobs.apply("gpt", "true", scheduling={"gang": "Kubernetes"})
    status = jobs.wait("gpt", lambda status: "PodGroups of Kubernetes" in status.get("reason", ""),
                       "word of what is missing")
    assert status["state"] == "Pending" and "podgroup gpt-e1 cannot be created" in status["reason"]
    assert members(jobs) == {}
