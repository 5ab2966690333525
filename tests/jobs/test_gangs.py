"""Gangs that a scheduler places as a whole: the PodGroups of spec.scheduling.gang as their own
CustomResourceDefinitions take them, with the real operator and real agents. Nodes are given by this
computer's kubelets."""

import contextlib
import json
import pathlib
import sys

import pytest
from waiting import wait_until

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cluster"))

import parts  # noqa: E402

GROUPS = "podgroups.scheduling.x-k8s.io"
LABEL = "scheduling.x-k8s.io/pod-group"


@pytest.fixture
def definition():
    """scheduler-plugins' own, of the version that Kueue knows."""
    return (parts.source("kueue", "sigs.k8s.io/scheduler-plugins")
            / "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml")


@contextlib.contextmanager
def served(cluster, name, file):
    """A CustomResourceDefinition, until the end."""
    cluster.kubectl("create", "-f", file)
    try:
        wait_until(lambda: cluster.kubectl("get", name, "-A", check=False).returncode == 0,
                   f"{name} to be served", 60, 0.05)
        yield
    finally:
        cluster.kubectl("delete", "crd", name)


def groups(jobs):
    found = json.loads(jobs.kubectl("get", GROUPS, "-o", "json"))["items"]
    return {each["metadata"]["name"]: each for each in found}


def members(jobs):
    """The group of each pod that has not ended."""
    found = json.loads(jobs.kubectl("get", "pods", "-o", "json"))["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["labels"].get(LABEL) for pod in found
            if pod["status"]["phase"] in ("Pending", "Running")}


def suspend(jobs, name, value):
    jobs.kubectl("patch", "tj", name, "--type=merge", "-p",
                 json.dumps({"spec": {"suspend": value}}))


def test_a_gang_of_coscheduling_has_a_group_for_as_long_as_it_has_pods(
        jobs, installed, definition, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", f'while [ ! -e "{gate}" ]; do sleep 0.05; done',
               scheduling={"gang": "Coscheduling"})
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


def test_a_group_that_is_a_strangers_is_told_and_left_alone(jobs, installed, definition):
    with served(installed, GROUPS, definition):
        jobs.kubectl("create", "-f", "-", input=json.dumps({
            "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "gpt-e1"}, "spec": {"minMember": 7}}))
        jobs.apply("gpt", "true", scheduling={"gang": "Coscheduling"})
        jobs.wait("gpt", lambda status: "podgroup gpt-e1 exists and is not this job's"
                  in status.get("reason", ""), "word of the stranger")
        assert members(jobs) == {}
        suspend(jobs, "gpt", True)
        jobs.wait("gpt", lambda status: status["state"] == "Suspended"
                  and "podGroup" not in status, "the job to let go of it")
        assert groups(jobs)["gpt-e1"]["spec"]["minMember"] == 7
        suspend(jobs, "gpt", False)
        jobs.wait_state("gpt", "Succeeded")
