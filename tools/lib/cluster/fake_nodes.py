"""Nodes that only pretend: kwok keeps them Ready and their pods Running."""

from architecture import ARCHITECTURE

CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "1000", "nvidia.com/gpu": "8"}
ZONES = 4


def manifests(count):
    for index in range(count):
        name = f"fake-{index}"
        yield {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {
                    "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": ARCHITECTURE,
                    "topology.kubernetes.io/zone": f"zone-{index % ZONES}",
                },
            },
            "status": {"capacity": CAPACITY, "allocatable": CAPACITY},
        }


def is_usable(node):
    """Whether pods can be scheduled to it."""
    conditions = node["status"].get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not node["spec"].get("taints")
