import contextlib
import json
import pathlib
import subprocess
import sys
import time

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))

from agent_kubelet import AgentKubelet  # noqa: E402
from cluster import cluster, namespace  # noqa: E402,F401
from tls import binary  # noqa: E402
from waiting import wait_until  # noqa: E402

PATIENCE = 120.0  # seconds; far beyond what anything takes


class Jobs:
    """One namespace with an operator of its own and kubelets that run real agents."""

    def __init__(self, cluster, namespace, kubelet, folder):  # noqa: F811
        self.cluster, self.namespace, self.kubelet, self.folder = (
            cluster, namespace, kubelet, folder)

    def kubectl(self, *arguments, **options):
        return self.cluster.kubectl("-n", self.namespace, *arguments, **options)

    def apply(self, name, command, **spec):
        """A job of two machines with two processes each, running a shell's `command`."""
        job = {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
               "metadata": {"name": name},
               "spec": {"numMachines": 2, "processesPerMachine": 2, "framework": "None",
                        "image": "example.com/test:1", "command": ["sh", "-c", command],
                        "topology": {"bind": "None"}, "schedulerName": "nobody", **spec}}
        self.kubectl("apply", "-f", "-", input=yaml.safe_dump(job))

    def status(self, name):
        return json.loads(self.kubectl("get", "tj", name, "-o", "json")).get("status", {})

    def pods(self, name):
        """UIDs by pod name, of those that have not ended."""
        items = json.loads(self.kubectl("get", "pods", "-l", f"lockstep.dev/job={name}",
                                        "-o", "json"))["items"]
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in items
                if pod["status"]["phase"] in ("Pending", "Running")}

    def wait(self, name, condition, what):
        """The first status of which condition(status) holds."""
        last = {}

        def holds():
            last.clear()
            last.update(self.status(name))
            return dict(last) if condition(last) else None

        return wait_until(holds, lambda: f"{what}; last: {json.dumps(last, indent=1)}\n"
                          + self.operator_log(), PATIENCE, 0.1)

    def wait_state(self, name, state):
        return self.wait(name, lambda status: status.get("state") == state, f"{name} {state}")

    def operator_log(self):
        return (self.folder / "operator.log").read_text()[-3000:]


@contextlib.contextmanager
def operator(cluster, namespace, folder):  # noqa: F811
    with open(folder / "operator.log", "ab") as log:
        process = subprocess.Popen(
            [binary("lockstep-operator"), "--kubeconfig", cluster.kubeconfig, "--namespace",
             namespace, "--system-namespace", namespace, "--agent-image", "agent:test",
             "--metrics-address", "127.0.0.1:0", "--log-format", "text"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="session")
def installed(cluster):  # noqa: F811
    cluster.install_crd()
    return cluster


@pytest.fixture
def jobs(installed, namespace, tmp_path):  # noqa: F811
    with AgentKubelet(installed, namespace, tmp_path) as kubelet, \
            operator(installed, namespace, tmp_path) as process:
        made = Jobs(installed, namespace, kubelet, tmp_path)
        made.operator = process
        yield made
        for name in made.kubectl("get", "tj", "-o", "name").split():
            made.kubectl("delete", name, "--wait=false")
        deadline = time.monotonic() + PATIENCE
        while made.kubectl("get", "pods", "-o", "name") and time.monotonic() < deadline:
            time.sleep(0.1)
