"""Three real nodes with Lockstep installed by its chart, and what may befall them.

    from e2e_stack import stack  # in a conftest.py: one a session

    with stack.powerless("node-1"):
        ...
"""

import contextlib
import os
import signal
import subprocess

import processes
import pytest
from cluster import Cluster, cluster_in
from e2e_install import SYSTEM, install, upgrade
from e2e_watch import first
from kubernetes.client import AppsV1Api, CoordinationV1Api, CoreV1Api
from nodes import Nodes
from waiting import wait_until

OPERATOR = "lockstep-operator"
PATIENCE = 300.0  # seconds
GANG_PORT = 7070


class Stack(Cluster):
    def __init__(self, folder):
        super().__init__(folder)
        self.nodes = Nodes(folder)

    # ---- nodes ----

    def cpus(self):
        """Of one node."""
        return int(CoreV1Api(self.client()).list_node().items[0].status.allocatable["cpu"])

    @contextlib.contextmanager
    def powerless(self, *names):
        with contextlib.ExitStack() as after:
            for name in names:
                after.callback(self.nodes.power_on, name)
                self.nodes.power_off(name)
            yield

    @contextlib.contextmanager
    def unreachable(self, name):
        """Cut off, with everything on it running on."""
        self.nodes.cut(name)
        try:
            yield
        finally:
            self.nodes.mend(name)

    def wait_whole(self):
        """Every node Ready, and every operator. A node's taints go one by one after it is Ready, and for
        as long as one says that it is out of reach, what is placed there counts as lost."""
        def ready():
            nodes = CoreV1Api(self.client()).list_node().items
            operators = AppsV1Api(self.client()).list_namespaced_deployment(SYSTEM).items
            return all(c.status == "True" for node in nodes for c in node.status.conditions
                       if c.type == "Ready") and not any(
                           node.spec.taints for node in nodes) and all(
                           each.status.ready_replicas == each.spec.replicas for each in operators)
        wait_until(ready, "nodes and operators to be whole again", PATIENCE, 0.5)

    @contextlib.contextmanager
    def without_dns(self):
        self.nodes.stop("coredns")
        try:
            yield
        finally:
            self.nodes.start("coredns")

    # ---- operators ----

    def holder(self):
        """Who leads, as the Lease names it: another name each time an operator starts."""
        return CoordinationV1Api(self.client()).read_namespaced_lease(
            OPERATOR, SYSTEM).spec.holder_identity or ""

    def leader(self):
        """The name of the leader's pod."""
        return self.holder().rpartition("_")[0]

    def wait_leader(self, other_than):
        first(lambda _, lease: lease["spec"].get("holderIdentity", "") not in ("", other_than),
              f"a leader other than {other_than}", PATIENCE,
              CoordinationV1Api(self.client()).list_namespaced_lease, SYSTEM,
              field_selector=f"metadata.name={OPERATOR}")

    def node_of(self, name):
        return CoreV1Api(self.client()).read_namespaced_pod(name, SYSTEM).spec.node_name

    def kill_operator(self, name):
        """Its process, by SIGKILL: kubelet starts it again in place."""
        pod = CoreV1Api(self.client()).read_namespaced_pod(name, SYSTEM)
        for pid in self.nodes.processes(pod):
            if processes.name(pid) == OPERATOR[:15]:  # as much as the kernel keeps of a name
                os.kill(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def without_operators(self):
        self._scale(0)
        try:
            wait_until(lambda: not self.operators(), "the operators to go", PATIENCE, 0.2)
            yield
        finally:
            self._scale(2)
            self.wait_whole()

    @contextlib.contextmanager
    def with_one_operator(self):
        """Yields the nodes where none is: what they can give is all free."""
        self._scale(1)
        try:
            wait_until(lambda: len(self.operators()) == 1, "one operator to go", PATIENCE, 0.2)
            taken = self.operators()[0].spec.node_name
            yield [name for name in self.nodes.names if name != taken]
        finally:
            self._scale(2)
            self.wait_whole()

    @contextlib.contextmanager
    def without_agents(self):
        """Operators whose packets to agents are dropped, as by a NetworkPolicy."""
        rule = ("table inet apart { chain out { type filter hook output priority 0; "
                f"tcp dport {GANG_PORT} drop; }}; }}")
        with contextlib.ExitStack() as mend:
            for pod in self.operators():
                self._in_network_of(pod, "nft", rule)
                mend.callback(self._in_network_of, pod, "nft", "delete table inet apart")
            yield

    def _in_network_of(self, pod, *command):
        subprocess.run(["nsenter", f"--net=/proc/{self.nodes.processes(pod)[0]}/ns/net", *command],
                       check=True)

    @contextlib.contextmanager
    def installed_with(self, *values):
        """Of the chart, as in agent.delivery=image-volume."""
        upgrade(self, *(word for value in values for word in ("--set", value)))
        try:
            yield
        finally:
            upgrade(self)

    def operators(self):
        return CoreV1Api(self.client()).list_namespaced_pod(
            SYSTEM, label_selector="app.kubernetes.io/name=lockstep,"
                                   "app.kubernetes.io/component=operator").items

    def _scale(self, count):
        self.kubectl("-n", SYSTEM, "scale", "deployment", "--all", f"--replicas={count}")


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    given = os.environ.get("LOCKSTEP_E2E")  # the folder of a cluster where Lockstep is installed
    if given:
        yield Stack(given)
        return
    with cluster_in(tmp_path_factory.mktemp("e2e"), "--nodes", "3") as made:
        install(made)
        yield Stack(made.folder)
