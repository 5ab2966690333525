"""A node that loses its power while a spare keeps a place: from there to all ranks running, and
what that time is made of, on three real nodes with an image that takes `--pull` seconds to come.

    tools/bench spare [-- --machine 0 --samples 3]

Times are the kernel's, of files that ranks make, and those at which watches told of a change.
"""

import argparse
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import urllib3
import yaml
from _bench import emit, spread
from cluster import cluster_in
from cluster_bench import BUSYBOX, FIRST_ACT, MOUNT, PATIENCE, ROOT, SYSTEM, Bench, volume
from e2e_stack import Stack
from kubernetes.client import CoreV1Api, CustomObjectsApi, DiscoveryV1Api
from kubernetes.watch import Watch
from processes import name as program
from waiting import wait_until

MACHINES = 2
LOST_AFTER = 3.0
LIMIT = LOST_AFTER + 3
LABEL = "lockstep.dev/job"
# Until there is a file of the node's name.
PULL = "for i in $(seq {}); do test -e /images/$NODE && exit; sleep 0.1; done"


class Timeline:
    """When watches first told of what a replacement takes, as time.time()."""

    def __init__(self, cluster, name):
        self.at = {}
        self.over = threading.Event()
        options = {"label_selector": f"{LABEL} in ({name}, {name}.spare)"}
        self.threads = [threading.Thread(target=self.follow, args=each, daemon=True) for each in (
            (self.on_job, CustomObjectsApi(cluster.client()).list_namespaced_custom_object,
             ("lockstep.dev", "v1alpha1", "default", "trainingjobs"),
             {"field_selector": f"metadata.name={name}"}),
            (self.on_pod, CoreV1Api(cluster.client()).list_namespaced_pod, ("default",), options),
            (self.on_slice, DiscoveryV1Api(cluster.client()).list_namespaced_endpoint_slice,
             ("default",), {}))]
        self.address, self.leads_to = None, []
        for thread in self.threads:
            thread.start()

    def follow(self, take, listing, arguments, options):
        while not self.over.is_set():
            try:
                for event in Watch().stream(listing, *arguments, **options, deserialize=False,
                                            timeout_seconds=20):
                    take(event["object"])
                    if self.over.is_set():
                        return
            except (urllib3.exceptions.HTTPError, OSError):
                time.sleep(0.05)

    def mark(self, what, holds=True):
        if holds:
            self.at.setdefault(what, time.time())

    def on_job(self, job):
        self.mark("epoch raised", job.get("status", {}).get("epoch", 0) > 1)

    def on_pod(self, pod):
        labels, status = pod["metadata"]["labels"], pod["status"]
        if labels[LABEL].endswith(".spare"):
            self.mark("spare told to leave", "deletionTimestamp" in pod["metadata"])
            self.mark("spare ended", status.get("phase") in ("Succeeded", "Failed"))
            return
        if int(labels["lockstep.dev/attempt"]) < 2:
            return
        self.mark("pod made")
        self.mark("pod has a node", bool(pod["spec"].get("nodeName")))
        for each in status.get("initContainerStatuses", []):
            self.mark(f"init container {each['name']} ended", "terminated" in each["state"])
        self.mark("pod has an address", bool(status.get("podIP")))
        self.address = status.get("podIP")
        self.mark("coordinator's address leads there", self.address in self.leads_to)
        for each in status.get("containerStatuses", []):
            self.mark("agent runs", "running" in each["state"])

    def on_slice(self, one):
        if "-coordinator" not in one["metadata"]["name"]:
            return
        self.leads_to = [each for point in one.get("endpoints") or []
                         for each in point["addresses"]]
        self.mark("coordinator's address leads there", self.address in self.leads_to)


class SpareBench(Bench):
    def __init__(self, stack, folder, given):
        super().__init__(stack, folder)
        self.stack, self.machine, self.pull = stack, given.machine, given.pull
        self.logs = given.logs
        self.images = folder / "images"
        self.images.mkdir()
        self.images.chmod(0o755)

    def manifest(self, name):
        pull = {"name": "pull", "image": BUSYBOX,
                "command": ["sh", "-c", PULL.format(self.pull * 10)],
                "volumeMounts": [{"name": "images", "mountPath": "/images"}],
                "env": [{"name": "NODE",
                         "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}
        images = {"name": "images", "hostPath": {"path": str(self.images)}}
        return {"numMachines": MACHINES, "processesPerMachine": 1, "image": BUSYBOX,
                "framework": "None", "topology": {"bind": "None"}, "spareMachines": 1,
                "placement": {"onePerNode": "Required"},
                "failurePolicy": {"machineLostAfter": f"{LOST_AFTER:g}s"},
                "command": ["sh", "-c", FIRST_ACT.format("$LOCKSTEP_GENERATION.$RANK")],
                "template": {"spec": {
                    "initContainers": [pull] if self.pull else [],
                    "volumes": [volume(self.folder / name), *([images] if self.pull else [])],
                    "containers": [{"name": "worker", "volumeMounts": [MOUNT]}]}}}

    def submit(self, name):
        (self.folder / name).mkdir()
        (self.folder / name).chmod(0o777)
        self.cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump({
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name}, "spec": self.manifest(name)}))

    def node_of(self, name, machine):
        return next(pod.spec.node_name for pod in self.pods(name)
                    if pod.metadata.labels["lockstep.dev/machine"] == str(machine))

    def pulled(self, name):
        """Once the images are on the nodes of machines and spare, and all run."""
        def nodes():
            found = [pod.spec.node_name for pod in self.pods(name) + self.pods(f"{name}.spare")]
            for node in filter(None, found):
                (self.images / node).touch()
            return len(found) == MACHINES + 1 and all(found)

        wait_until(nodes, f"nodes for {name}", PATIENCE, 0.1)
        first, _ = self.all_running(name, world=MACHINES)
        wait_until(lambda: all(each.ready for pod in self.pods(f"{name}.spare")
                               for each in pod.status.container_statuses or [None]),
                   "a spare", PATIENCE, 0.1)
        return first

    def lead_elsewhere(self, node):
        """What an operator's own node costs is another figure."""
        leader = self.stack.leader()
        if self.stack.node_of(leader) != node:
            return
        holder = self.stack.holder()
        self.cluster.kubectl("-n", SYSTEM, "delete", "pod", leader)
        self.stack.wait_leader(holder)
        if self.stack.node_of(self.stack.leader()) == node:
            raise SystemExit(f"an operator leads on {node} again")

    def lose(self, name):
        """(seconds to all ranks running, of that what by when)"""
        self.submit(name)
        first = self.pulled(name)
        node = self.node_of(name, self.machine)
        self.lead_elsewhere(node)
        [spare] = self.pods(f"{name}.spare")
        timeline = Timeline(self.cluster, name)
        (self.images / node).unlink(missing_ok=True)
        off = time.time()
        self.nodes.power_off(node)
        try:
            running = self.all_running(name, [first], world=MACHINES)[1]
            if spare.spec.node_name not in [each.spec.node_name for each in self.pods(name)]:
                raise SystemExit("the spare's node was not taken")
            timeline.at["agent began"] = self.agent_began(name)
        finally:
            timeline.over.set()
            if self.logs:
                self.keep_logs(name)
            self.nodes.power_on(node)
        self.delete(name)
        self.stack.wait_whole()
        return running - off, {what: round(at - off, 2) for what, at in sorted(
            timeline.at.items(), key=lambda each: each[1])}

    def agent_began(self, name):
        """When the machine's agent was started, as the kernel has it."""
        pod = next(each for each in self.pods(name)
                   if each.metadata.labels["lockstep.dev/machine"] == str(self.machine)
                   and each.metadata.labels["lockstep.dev/attempt"] != "1")
        agent = min(pid for pid in self.nodes.processes(pod) if program(pid) == "lockstep-agent")
        ticks = int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[19])
        since_boot = ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)

    def keep_logs(self, name):
        for space, pods in (("default", self.pods(name)), (SYSTEM, self.stack.operators())):
            for pod in pods:
                done = self.cluster.kubectl("-n", space, "logs", pod.metadata.name, "--timestamps",
                                            "--request-timeout=3s", check=False)
                (self.logs / f"{name}.{pod.metadata.name}").write_text(done.stdout + done.stderr)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--machine", type=int, default=0, choices=range(MACHINES))
    arguments.add_argument("--samples", type=int, default=3)
    arguments.add_argument("--pull", type=int, default=60, metavar="SECONDS",
                           help="that the image takes, played by an init container; 0: none")
    arguments.add_argument("--cluster", help="the folder of one where Lockstep is installed")
    arguments.add_argument("--logs", type=Path, help="a folder for agents' and operators' logs")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        Path(folder).chmod(0o755)
        if given.cluster:
            return measure(Stack(given.cluster), Path(folder), given)
        subprocess.run([ROOT / "tools/images"], check=True)
        with cluster_in(f"{folder}/cluster", "--nodes", "3") as made:
            stack = Stack(made.folder)
            Bench(stack, Path(folder)).install()
            measure(stack, Path(folder), given)


def measure(stack, folder, given):
    bench = SpareBench(stack, folder, given)
    lost = []
    for sample in range(given.samples):
        seconds, made_of = bench.lose(f"spare-{given.machine}-{sample}")
        lost.append(seconds)
        emit("spare", "node lost to all ranks running", unit="s", machine0=given.machine == 0,
             seconds=round(seconds, 2), at=made_of)
    emit("spare", f"machine {given.machine}", unit="s", limit=LIMIT, machineLostAfter=LOST_AFTER,
         **spread(lost))


if __name__ == "__main__":
    main()
