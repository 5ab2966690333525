"""Nodes whose kubelet aligns a pod's CPUs, memory and devices, or refuses it."""

import re

from kubernetes.client import CoreV1Api
from waiting import wait_until

RESOURCE = "amd.com/gpu"  # pretended by the tests' device plugin
PATIENCE = 120.0
SHOW = "grep _allowed_list /proc/self/status; echo devices $PRETENDED_DEVICES; sleep 600"


def wait_offered(site, *nodes):
    """A kubelet that was restarted offers its devices before the scheduler may use its node again."""
    def offers(node):
        node = CoreV1Api(site.client).read_node(node)
        return node.status.allocatable.get(RESOURCE) == "1" and not node.spec.taints
    wait_until(lambda: all(map(offers, nodes)), f"{RESOURCE} on {nodes}, which have no taint", PATIENCE, 0.2)


def prefers(node):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"spec": {"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}}}}


def aligned(status):
    return next((c for c in status.get("conditions", []) if c["type"] == "TopologyAligned"), {})


def test_machine_that_kubelet_refuses_to_align_moves_to_another_node(site):
    with site.stack.with_one_operator() as (bad, good):
        nodes = site.stack.nodes
        with nodes.aligning(bad, RESOURCE, "1"), nodes.aligning(good, RESOURCE, "0") as cpus:
            wait_offered(site, bad, good)
            job = site.program(
                "aligned", ["sh", "-c", SHOW], numMachines=1, processesPerMachine=1,
                resourcesPerProcess={"gpu": 1, "gpuResource": RESOURCE, "cpu": 1, "memory": "64Mi"},
                topology={"policy": "Required", "memoryPolicy": "None"}, template=prefers(bad))
            refused = job.wait(lambda s: aligned(s).get("status") == "False", "the refusal")
            assert re.search(f"machine 0 on node {bad}: TopologyAffinityError",
                             aligned(refused)["message"])
            status = job.wait(lambda s: aligned(s).get("status") == "True", "the alignment")
            assert status["machineStatuses"][0]["node"] == good
            assert status["restarts"]["application"] == 0
            wait_until(lambda: "devices" in job.log(), "the rank's words", PATIENCE, 0.2)
            said = job.log()
            assert re.search(r"devices device-0$", said, re.MULTILINE)
            # A core of its own, and the memory of the node that the device is on.
            assert int(re.search(r"Cpus_allowed_list:\s+(\S+)", said)[1]) in cpus
            assert re.search(r"Mems_allowed_list:\s+0$", said, re.MULTILINE)
