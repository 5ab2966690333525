"""JobSet, the peer that the operator is measured beside: its own manager, with its own CRD and
webhooks, which the API server reaches on loopback.
"""

import base64
import threading
import time

import parts
import yaml
from _operator_bench import Process, wait_for
from certificate import self_signed
from ports import free_port

RATE = {"qps": 500, "burst": 500}  # its default
GROUP = "jobset.x-k8s.io/v1alpha2"


class JobSet(Process):
    def __init__(self, cluster, folder):
        program = parts.build("peers", print) / "jobset"
        source = parts.source("peers", "sigs.k8s.io/jobset") / "config/components"
        self.webhooks = free_port()
        self_signed(folder / "tls.crt", folder / "tls.key")
        cluster.kubectl("apply", "--server-side", "-f", source / "crd/bases")
        cluster.kubectl("apply", "-f", "-", input=self._webhooks(source, folder))
        config = folder / "jobset.yaml"
        config.write_text(yaml.safe_dump({
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration",
            "leaderElection": {"leaderElect": False}, "clientConnection": RATE,
            "internalCertManagement": {"enable": False},
            "webhook": {"port": self.webhooks, "certDir": str(folder)},
            "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": "0"}}))
        super().__init__([program, "--config", config, "--kubeconfig", cluster.kubeconfig,
                          "--zap-log-level=error"], folder)

    def _webhooks(self, source, folder):
        """As its chart installs them, but reached by URL; of pods only its own are judged."""
        authority = base64.b64encode((folder / "tls.crt").read_bytes()).decode()
        documents = list(yaml.safe_load_all((source / "webhook/manifests.yaml").read_text()))
        for hook in (hook for document in documents for hook in document["webhooks"]):
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{self.webhooks}{path}",
                                    "caBundle": authority}
            if "pod" in path:
                hook["objectSelector"] = {"matchExpressions": [
                    {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}
        return yaml.safe_dump_all(documents)


def jobset(name, machines):
    pod = {"spec": {"restartPolicy": "Never", "containers": [
        {"name": "worker", "image": "example.com/train:1", "command": ["train"]}]}}
    job = {"spec": {"parallelism": machines, "completions": machines, "backoffLimit": 0,
                    "template": pod}}
    return {"apiVersion": GROUP, "kind": "JobSet", "metadata": {"name": name},
            "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": job}]}}


class Beside:
    """JobSets in a namespace of their own, and when their pods were seen."""

    def __init__(self, server, namespace):
        self._server = server
        self._path = f"/apis/{GROUP}/namespaces/{namespace}/jobsets"
        self._lock = threading.Lock()
        self._running = {}
        server.follow(f"/api/v1/namespaces/{namespace}/pods", self._see)
        session = server.session()
        wait_for(lambda: session.post(f"{server.url}{self._path}?dryRun=All",
                                      json=jobset("probe", 1)).ok, "JobSet and its webhooks")

    def _see(self, kind, pod):
        at, name = time.monotonic(), pod["metadata"]["name"]
        with self._lock:
            if pod["status"].get("phase") == "Running":
                self._running.setdefault(name, at)

    def run(self, names, machines):
        """Seconds from the first request to the last pod Running."""
        before = len(self._running)
        began = self._server.post_all(self._path, [jobset(name, machines) for name in names])
        wait_for(lambda: len(self._running) >= before + len(names) * machines, "JobSet's pods")
        with self._lock:
            return max(self._running.values()) - began
