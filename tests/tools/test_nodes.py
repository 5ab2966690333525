"""tools/lib/cluster/up --nodes: nodes that run pods, break, are mended, and go without a trace."""

import os
import pathlib
import signal
import subprocess

import network
import processes
import pytest
from cluster import SCRIPTS, cluster_in
from kubernetes.client import CoreV1Api
from nodes import Nodes
from waiting import wait_until

pytestmark = pytest.mark.slow  # a kubelet and containerd are built first

IMAGE = "lockstep.test/busybox:1"
PATIENCE = 180


class Pods:
    """One on each node; each counts in a file of a folder that all share, and serves the folder."""

    def __init__(self, cluster, namespace, folder):
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.nodes = Nodes(cluster.folder)
        self.api = CoreV1Api(cluster.client())
        for node in self.nodes.names:
            self.api.create_namespaced_service(namespace, {
                "metadata": {"name": f"at-{node}"},
                "spec": {"selector": {"on": node}, "ports": [{"port": 80, "targetPort": 8080}]}})
        self.start(*self.nodes.names)

    def start(self, *nodes):
        for node in nodes:
            self.api.create_namespaced_pod(self.namespace, self._manifest(node))
        wait_until(lambda: all(map(self.is_ready, nodes)), f"pods on {nodes}", PATIENCE, 0.05)

    def is_there(self, node):
        pods = self.api.list_namespaced_pod(self.namespace).items
        return f"on-{node}" in [pod.metadata.name for pod in pods]

    def get(self, node):
        return self.api.read_namespaced_pod(f"on-{node}", self.namespace)

    def is_ready(self, node):
        return any(each.type == "Ready" and each.status == "True"
                   for each in self.get(node).status.conditions or [])

    def count(self, node):
        file = self.folder / node
        return file.stat().st_size if file.exists() else 0

    def counts_on(self, node):
        seen = self.count(node)
        return wait_until(lambda: self.count(node) > seen, f"{node} to count", PATIENCE)

    def run(self, node, *command):
        return self.cluster.kubectl("-n", self.namespace, "exec", f"on-{node}", "--", *command,
                                    check=False)

    def _manifest(self, node):
        command = ("httpd -p 8080 -h /shared; echo started; "
                   f"while sleep 0.1; do echo -n x >> /shared/{node}; done")
        return {
            "metadata": {"name": f"on-{node}", "labels": {"on": node}},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 0, "restartPolicy": "Never",
                "containers": [{
                    "name": "c", "image": IMAGE, "command": ["sh", "-c", command],
                    "env": [{"name": "LOCKSTEP_TEST_POD", "value": node}],
                    "volumeMounts": [{"name": "shared", "mountPath": "/shared"},
                                     {"name": "image", "mountPath": "/image"}]}],
                "volumes": [{"name": "shared", "hostPath": {"path": str(self.folder)}},
                            {"name": "image", "image": {"reference": IMAGE}}]}}


@pytest.fixture(scope="module")
def with_nodes(tmp_path_factory):
    with cluster_in(tmp_path_factory.mktemp("cluster"), "--nodes", "3") as made:
        yield made


@pytest.fixture
def pods(with_nodes, tmp_path):
    with with_nodes.namespace() as namespace:
        yield Pods(with_nodes, namespace, tmp_path)


def test_pods_of_three_nodes_reach_each_other_by_name(pods):
    for here in pods.nodes.names:
        for there in pods.nodes.names:
            pods.counts_on(there)
            done = pods.run(here, "wget", "-q", "-O", "-", f"http://at-{there}/{there}")
            assert done.stdout.startswith("x"), f"{here} to {there}: {done.stderr}"


def test_pods_have_logs_and_can_mount_an_image(pods):
    node = pods.nodes.names[0]
    assert pods.cluster.kubectl("-n", pods.namespace, "logs", f"on-{node}") == "started\n"
    assert "busybox" in pods.run(node, "ls", "/image/bin").stdout


def test_a_process_of_a_pod_can_be_killed(pods):
    node = pods.nodes.names[1]
    pod = pods.get(node)
    assert len(pods.nodes.processes(pod)) >= 2
    pods.nodes.kill(pod, "LOCKSTEP_TEST_POD", node)
    wait_until(lambda: pods.get(node).status.phase == "Failed", "the pod to fail", PATIENCE, 0.05)


def test_node_without_power_runs_nothing_and_keeps_its_images(pods):
    off, other = pods.nodes.names[:2]
    pods.counts_on(off)
    pids = pods.nodes.processes(pods.get(off))
    pods.nodes.power_off(off)
    assert pids and not any(map(processes.alive, pids))
    pods.counts_on(other)

    pods.nodes.power_on(off)
    wait_until(lambda: pods.get(off).status.phase == "Failed", "the pod to be known as ended",
               PATIENCE, 0.05)
    pods.api.delete_namespaced_pod(f"on-{off}", pods.namespace)
    wait_until(lambda: not pods.is_there(off), "the old pod to go", PATIENCE, 0.05)
    pods.start(off)


def test_node_cut_off_from_network_keeps_its_pod_running(pods):
    off, other = pods.nodes.names[1:]
    pods.counts_on(off)
    ask = ["timeout", "5", "wget", "-q", "-O", "-", f"http://at-{off}/{off}"]
    pods.nodes.cut(off)
    try:
        assert pods.run(other, *ask).returncode != 0
        pods.counts_on(off)
    finally:
        pods.nodes.mend(off)
    wait_until(lambda: pods.run(other, *ask).returncode == 0, "the node to be heard", PATIENCE)
    assert pods.is_ready(off)


def test_dns_and_api_server_work_again_after_restart(pods):
    here, there = pods.nodes.names[:2]
    ask = ["timeout", "5", "wget", "-q", "-O", "-", f"http://at-{there}/{there}"]
    pods.counts_on(there)
    pods.nodes.stop("coredns")
    assert pods.run(here, *ask).returncode != 0
    pods.nodes.start("coredns")
    wait_until(lambda: pods.run(here, *ask).returncode == 0, "names", PATIENCE)
    pods.nodes.restart("kube-apiserver")
    assert pods.api.list_node().items
    assert pods.run(here, *ask).returncode == 0


def test_new_cluster_removes_remains_of_killed_cluster_and_leaves_none(tmp_path):
    folder = tmp_path / "cluster"
    bridge = network.name_for(folder)
    subprocess.run([SCRIPTS / "up", "--dir", folder, "--nodes", "1"], check=True)
    for pid in processes.with_variable("LOCKSTEP_TEST_CLUSTER", str(folder)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    wait_until(lambda: str(folder) in network.unplugged(), "its node to be gone", PATIENCE)

    # The next one, wherever it is, clears away what nobody will take down.
    with cluster_in(tmp_path / "next", "--nodes", "1"):
        assert not network.exists(folder)
        assert not list(pathlib.Path("/sys/fs/cgroup").glob(f"*/{bridge}*"))
    assert not network.exists(tmp_path / "next")
    assert str(tmp_path) not in pathlib.Path("/proc/mounts").read_text()
