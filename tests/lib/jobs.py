"""TrainingJobs of one namespace on a real API server, with an operator and kubelets that run real
agents.

    with operator(cluster.kubeconfig, folder, "--namespace", namespace):
        with AgentKubelet(cluster, namespace, folder) as kubelet:
            jobs = Jobs(cluster, namespace, kubelet, folder)
            jobs.apply("gpt", "echo here")
            jobs.wait_state("gpt", "Succeeded")
"""

import contextlib
import json
import os
import subprocess

import yaml
from tls import binary
from waiting import wait_until

# What carries the operator's requests: CMake's LOCKSTEP_HTTP of another operator than the shipped one.
HTTP = os.environ.get("LOCKSTEP_HTTP", "curl")
OPERATOR = "lockstep-operator" if HTTP == "curl" else f"lockstep-operator-{HTTP}"
PATIENCE = 120.0  # seconds; far beyond what anything takes


class Jobs:
    """`folder` is the operator's."""

    def __init__(self, cluster, namespace, kubelet, folder):
        self.cluster, self.namespace, self.kubelet, self.folder = (
            cluster, namespace, kubelet, folder)

    def kubectl(self, *arguments, **options):
        return self.cluster.kubectl("-n", self.namespace, *arguments, **options)

    def apply(self, name, command, labels=None, annotations=None, **spec):
        """A job of two machines with two processes each, running a shell's `command`, or none."""
        runs = {"command": ["sh", "-c", command]} if command else {}
        job = {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
               "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
               "spec": {"numMachines": 2, "processesPerMachine": 2, "framework": "None",
                        "image": "example.com/test:1", **runs,
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

    def spares(self, name):
        """The pods of its spares that run and need not go, by name."""
        items = json.loads(self.kubectl("get", "pods", "-l", f"lockstep.dev/job={name}.spare",
                                        "-o", "json"))["items"]
        return {pod["metadata"]["name"]: pod for pod in items
                if pod["status"]["phase"] == "Running"
                and "deletionTimestamp" not in pod["metadata"]}

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
        logs = sorted(self.folder.rglob("operator.log"))
        return "\n".join(f"{log}:\n{log.read_text()[-3000:]}" for log in logs)


@contextlib.contextmanager
def operator(kubeconfig, folder, *options, metrics="127.0.0.1:0", command=None):
    """Its process; its log in `folder`. `command` are the words that start another one than LOCKSTEP_BIN's.

    Its Lease lasts a minute: with the default of 15 s it ends if the API server has no core for 10 s,
    and nothing starts it again. A test of Leases names its own --lease-duration.
    """
    with open(folder / "operator.log", "ab") as log:
        process = subprocess.Popen(
            [*(command or [binary(OPERATOR)]), "--kubeconfig", kubeconfig, "--agent-image", "agent:test",
             "--metrics-address", metrics, "--health-address", "127.0.0.1:0", "--log-format", "text",
             *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={"LOCKSTEP_LEASE_DURATION": "60", **os.environ})
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)
