"""Lockstep on three real nodes, installed by its chart: from `kubectl apply` to ranks, from a death
to ranks. A rank's first act is to make a file in a folder that all nodes share: the times are the
kernel's, of these files.

    tools/bench cluster [-- --samples 5 --losses 2]
"""

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import yaml
from _bench import ROOT, emit, now, spread
from cluster import SCRIPTS, cluster_in
from kubernetes.client import CoreV1Api
from nodes import Nodes
from processes import name as program
from processes import usage
from waiting import wait_until

IMAGES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep/images"
BUSYBOX = "lockstep.test/busybox:1"
SYSTEM = "lockstep-system"
PATIENCE = 300.0
MACHINES, PROCESSES = 2, 2
LOST_AFTER = 15.0  # machineLostAfter's default
FIRST_ACT = ": > /times/{}; exec sleep infinity"


def volume(folder):
    return {"name": "times", "hostPath": {"path": str(folder)}}


MOUNT = {"name": "times", "mountPath": "/times"}


def emit_seconds(figure, samples, **values):
    emit("cluster", figure, unit="s", **spread(samples), **values)


class Bench:
    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        self.api = CoreV1Api(cluster.client())
        self.nodes = Nodes(cluster.folder)

    def install(self):
        subprocess.run([SCRIPTS / "load", "--dir", self.cluster.folder,
                        IMAGES / "operator.tar", IMAGES / "worker.tar"], check=True)
        self.cluster.helm("install", "lockstep", ROOT / "helm/lockstep", "-n", SYSTEM,
                          "--create-namespace", "--wait", "--timeout", "5m")
        # The policy keeps such volumes from users.
        self.cluster.kubectl("label", "namespace", "default", "allow.lockstep.dev/hostPath=true")

    # ---- one job ----

    def submit(self, name):
        """The time at which it was asked for; ranks make files GENERATION.RANK in its folder."""
        (self.folder / name).mkdir(mode=0o777)
        (self.folder / name).chmod(0o777)
        manifest = yaml.safe_dump({
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {
                "numMachines": MACHINES, "processesPerMachine": PROCESSES, "image": BUSYBOX,
                "framework": "None", "topology": {"bind": "None"},
                "command": ["sh", "-c", FIRST_ACT.format("$LOCKSTEP_GENERATION.$RANK")],
                "template": {"spec": {
                    "volumes": [volume(self.folder / name)],
                    "containers": [{"name": "worker", "volumeMounts": [MOUNT]}]}}}})
        asked = time.time()
        self.cluster.kubectl("apply", "-f", "-", input=manifest)
        return asked

    def all_running(self, name, other_than=(), world=MACHINES * PROCESSES):
        """(generation, when its last rank began), of the first complete one that is not in
        `other_than`."""
        def complete():
            begun = {}
            for file in (self.folder / name).iterdir():
                generation = file.name.rpartition(".")[0]
                begun.setdefault(generation, []).append(file.stat().st_mtime)
            for generation, times in begun.items():
                if generation not in other_than and len(times) == world:
                    return generation, max(times)
            return None

        return wait_until(complete, f"all ranks of {name}", PATIENCE, 0.005)

    def pods(self, name):
        found = self.api.list_namespaced_pod("default", label_selector=f"lockstep.dev/job={name}")
        return found.items

    def delete(self, name):
        self.cluster.kubectl("delete", "tj", name, "--cascade=foreground")
        wait_until(lambda: not self.pods(name), f"{name}'s pods to go", PATIENCE, 0.1)

    # ---- figures ----

    def start_and_restart(self, samples):
        starts, floors, restarts = [], [], []
        for sample in range(samples):
            name = f"job-{sample}"
            asked = self.submit(name)
            first, running = self.all_running(name)
            starts.append(running - asked)
            pods = self.pods(name)
            killed = time.time()
            self.nodes.kill(pods[-1], "RANK", str(MACHINES * PROCESSES - 1))
            restarts.append(self.all_running(name, [first])[1] - killed)
            across = len({pod.spec.node_name for pod in pods})
            self.delete(name)
            floors.append(self.plain_pods(f"floor-{sample}", pods))
        emit_seconds("apply to all ranks running", starts, limit=4.0, nodes=across,
                     floor=spread(floors))
        emit_seconds("rank killed to gang respawned", restarts, limit=0.15, nodes=across)

    def plain_pods(self, name, like):
        """Kubernetes' own share: as many pods with the same init container, and no Lockstep."""
        folder = self.folder / name
        folder.mkdir()
        folder.chmod(0o777)
        manifests = [yaml.safe_dump({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-{index}"},
            "spec": {
                "terminationGracePeriodSeconds": 0, "restartPolicy": "Never",
                "initContainers": [self.client_dict(each) for each in pod.spec.init_containers],
                "containers": [{
                    "name": "worker", "image": BUSYBOX, "volumeMounts": [MOUNT],
                    "command": ["sh", "-c", FIRST_ACT.format(index)]}],
                "volumes": [volume(folder), *(self.client_dict(each) for each in pod.spec.volumes
                                              if each.empty_dir)]}})
            for index, pod in enumerate(like)]
        asked = time.time()
        self.cluster.kubectl("apply", "-f", "-", input="---\n".join(manifests))
        wait_until(lambda: len(list(folder.iterdir())) == len(like), name, PATIENCE, 0.005)
        begun = max(file.stat().st_mtime for file in folder.iterdir())
        self.cluster.kubectl("delete", "pod", *(f"{name}-{index}" for index in range(len(like))))
        return begun - asked

    def client_dict(self, part):
        return self.api.api_client.sanitize_for_serialization(part)

    def node_losses(self, samples):
        lost = []
        for sample in range(samples):
            name = f"loss-{sample}"
            self.submit(name)
            first, _ = self.all_running(name)
            node = self.pods(name)[-1].spec.node_name
            off = time.time()
            self.nodes.power_off(node)
            lost.append(self.all_running(name, [first])[1] - off)
            self.nodes.power_on(node)
            self.delete(name)
        emit_seconds("node killed to all ranks running", lost, limit=LOST_AFTER + 5,
                     machineLostAfter=LOST_AFTER)

    def operators(self, since):
        """What both replicas used, from their start on."""
        found = []
        for pod in self.api.list_namespaced_pod(
                SYSTEM, label_selector="app.kubernetes.io/component=operator").items:
            found += [usage(pid) for pid in self.nodes.processes(pod)
                      if program(pid) == "lockstep-operator"[:15]]
        emit("cluster", "operators", unit="s of CPU, MiB each", cpu=sum(cpu for cpu, _ in found),
             memory=[round(memory, 1) for _, memory in found], during=round((now() - since) / 1e9))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--samples", type=int, default=10, help="jobs started and hurt")
    arguments.add_argument("--losses", type=int, default=3, help="nodes that lose their power")
    given = arguments.parse_args()
    subprocess.run([ROOT / "tools/images"], check=True)
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        Path(folder).chmod(0o755)
        begun = time.monotonic()
        with cluster_in(f"{folder}/cluster", "--nodes", "3") as cluster:
            emit_seconds("up", [time.monotonic() - begun], limit=20)
            bench = Bench(cluster, Path(folder))
            bench.install()
            since = now()
            bench.start_and_restart(given.samples)
            bench.operators(since)
            bench.node_losses(given.losses)  # an operator's node may be among them


if __name__ == "__main__":
    main()
