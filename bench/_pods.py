"""Pods of a JobSet whose processes run on this computer, without kubelets.

The API server, etcd, the controllers and JobSet are the real programs. A thread follows the pods and
does what a kubelet does, at once: starts a pod's process, reports its end, and ends the process of a
pod that is deleted.
"""

import json
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import _jobset
from _compare import Peer
from _live import PROGRAM
from _operator_bench import Server, wait_for
from cluster import SCRIPTS, Cluster
from ports import free_port

NODE = "bench"
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


class Control:
    """A control plane with JobSet, and one node that this script plays."""

    def __init__(self, folder):
        self._folder = folder
        subprocess.run([SCRIPTS / "up", "--dir", folder], check=True)
        self.cluster = Cluster(folder)
        self._own = Path(tempfile.mkdtemp(prefix="jobset-", dir=folder.parent))
        self.jobset = _jobset.JobSet(self.cluster, self._own)
        self.server = Server(self.cluster, self._own)
        self.cluster.kubectl("apply", "-f", "-", input=json.dumps(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}))
        self.session = self.server.session()
        probe = _jobset.jobset("probe", 1)
        path = f"{self.server.url}/apis/{_jobset.GROUP}/namespaces/default/jobsets"
        wait_for(lambda: self.session.post(f"{path}?dryRun=All", json=probe).ok, "JobSet")

    def down(self):
        self.jobset.stop()
        subprocess.run([SCRIPTS / "down", "--dir", self._folder], check=True)


class JobSetJob(Peer):
    def __init__(self, folder, python, shape, control):
        self._server, self._session = control.server, threading.local()
        self._pods = "/api/v1/namespaces/default/pods"
        self._processes, self._lock, self._over = {}, threading.Lock(), False
        self._python, self._port, self._name = python, free_port(), folder.name
        super().__init__(folder, shape, ["sleep", "600"])  # stands for the job, which has no process
        self._output = (folder / "log").open("a")
        job = _jobset.jobset(self._name, shape.machines)
        job["spec"]["failurePolicy"] = {"maxRestarts": 3}
        pod = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        pod.update(nodeName=NODE, terminationGracePeriodSeconds=1)
        job["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] = "Indexed"
        threading.Thread(target=self._follow, daemon=True).start()
        self._sessions().post(f"{self._server.url}/apis/{_jobset.GROUP}/namespaces/default/jobsets",
                              json=job).raise_for_status()

    def _sessions(self):
        if not hasattr(self._session, "one"):
            self._session.one = self._server.session()
        return self._session.one

    def _follow(self):
        self._server.follow(self._pods, self._see)

    def _see(self, kind, pod):
        name, labels = pod["metadata"]["name"], pod["metadata"].get("labels", {})
        if labels.get("jobset.sigs.k8s.io/jobset-name") != self._name or self._over:
            return
        with self._lock:
            process = self._processes.get(name)
            if kind != "DELETED" and not pod["metadata"].get("deletionTimestamp"):
                if process is None:
                    self._processes[name] = self._start(name, labels)
            elif process and process.poll() is None:
                process.send_signal(signal.SIGTERM)
            elif kind != "DELETED":
                self._remove(name)

    def _start(self, name, labels):
        index = labels["batch.kubernetes.io/job-completion-index"]
        process = subprocess.Popen(
            [str(word) for word in [
                self._python, "-m", "torch.distributed.run", f"--nnodes={self.shape.machines}",
                f"--node_rank={index}", f"--nproc_per_node={self.shape.processes}",
                "--master_addr=127.0.0.1", f"--master_port={self._port + int(labels[ATTEMPT])}",
                "--monitor_interval=0.1", "--max_restarts=0", PROGRAM]],
            env={**self.environment, "BENCH_GENERATION": labels[ATTEMPT]}, stdin=subprocess.DEVNULL,
            stdout=self._output, stderr=self._output)
        threading.Thread(target=self._attend, args=(name, process), daemon=True).start()
        return process

    def _attend(self, name, process):
        """A pod's status while its process runs, and when it ends."""
        self._patch(name, {"phase": "Running"})
        code = process.wait()
        if not self._over:
            self._patch(name, {"phase": "Failed" if code else "Succeeded"})
            pod = self._sessions().get(f"{self._server.url}{self._pods}/{name}")
            if pod.ok and pod.json()["metadata"].get("deletionTimestamp"):
                self._remove(name)

    def _patch(self, name, status):
        self._sessions().patch(
            f"{self._server.url}{self._pods}/{name}/status", data=json.dumps({"status": status}),
            headers={"Content-Type": "application/merge-patch+json"})

    def _remove(self, name):
        self._sessions().delete(f"{self._server.url}{self._pods}/{name}", json={"gracePeriodSeconds": 0})

    def end(self):
        self._over = True
        self._sessions().delete(
            f"{self._server.url}/apis/{_jobset.GROUP}/namespaces/default/jobsets/{self._name}",
            json={"propagationPolicy": "Background"})
        for name in list(self._processes):
            self._remove(name)
        super().end()
        time.sleep(1)
