"""A Kubernetes that tools/lib/cluster/up has brought up, as tests, benchmarks and demos use it.

    with cluster_in(folder, "--fake-nodes", "20") as cluster:
        cluster.install_crd()
        with cluster.namespace() as name:
            cluster.kubectl("apply", "-n", name, "-f", "-", input=manifest)
"""

import contextlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import threading

import kubernetes
from kubernetes.client import CoreV1Api
from waiting import wait_until

SCRIPTS = pathlib.Path(__file__).resolve().parent
CRDS = SCRIPTS.parents[2] / "crds"
CRD = CRDS / "lockstep.dev_trainingjobs.yaml"
RULES = CRDS / "rules.yaml"


class Cluster:
    """One that is up, with its folder as tools/lib/cluster/up leaves it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.kubeconfig = self.folder / "kubeconfig"

    def kubectl(self, *arguments, input=None, check=True):
        """Its output; with check=False the finished process, for what ought to fail."""
        done = self._run("kubectl", arguments, input)
        if not check:
            return done
        assert done.returncode == 0, f"kubectl {' '.join(map(str, arguments))}: {done.stderr}"
        return done.stdout

    def helm(self, *arguments):
        done = self._run("helm", arguments, None)
        assert done.returncode == 0, f"helm {' '.join(map(str, arguments))}: {done.stderr}"
        return done.stdout

    def install_crd(self):
        """TrainingJobs as committed in crds/ with their rules, once they are served and judged."""
        self.kubectl("apply", "-f", CRD, "-f", RULES)
        wrong = json.dumps({"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
                            "metadata": {"name": "wrong"}, "spec": {}})
        wait_until(lambda: "denied request" in self.kubectl(
            "create", "--dry-run=server", "-f", "-", input=wrong, check=False).stderr,
            "TrainingJobs to be served, and their rules to be in force", 120, 0.05)

    def client(self):
        """A new client of Python's `kubernetes`, as cluster-admin."""
        return kubernetes.config.new_client_from_config(str(self.kubeconfig))

    @contextlib.contextmanager
    def namespace(self, name="test"):
        """The name of a new namespace in which pods can be made; deleted afterwards."""
        name = f"{name}-{secrets.token_hex(4)}"
        api = CoreV1Api(self.client())
        api.create_namespace({"metadata": {"name": name}})
        try:
            wait_until(lambda: self._has_account(api, name), f"{name}'s service account", 120, 0.05)
            yield name
        finally:
            api.delete_namespace(name)

    def _has_account(self, api, namespace):
        accounts = api.list_namespaced_service_account(namespace).items
        return "default" in [account.metadata.name for account in accounts]

    def _run(self, program, arguments, input):
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run([self.folder / "bin" / program, *map(str, arguments)], input=input,
                              env=environment, capture_output=True, text=True, timeout=300)


@contextlib.contextmanager
def cluster_in(folder, *options):
    """tools/lib/cluster/up with its --dir, and down afterwards: also after SIGTERM, unless the process
    has a handler of its own."""
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL \
            and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    subprocess.run([SCRIPTS / "up", "--dir", folder, *options], check=True)
    try:
        yield Cluster(folder)
    finally:
        subprocess.run([SCRIPTS / "down", "--dir", folder], check=True)
