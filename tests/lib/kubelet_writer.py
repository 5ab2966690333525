"""Scheduler and kubelets of one namespace, as far as the API server sees them: pods get a node,
run, end as a test says, and go when they are deleted. No container exists.

    kubelet = KubeletWriter(api, namespace, nodes.names)
    following = asyncio.create_task(kubelet.follow())
    await kubelet.terminate("gpt-1", exit_code=137, reason="OOMKilled")
"""

import asyncio
import contextlib
import datetime
import hashlib
import json

from api_client import UNANSWERED, ApiError

EXIT_STOPPED = 143
# When containers were started in which no agent is: in a while. So what status says of their silence
# does not depend on how long a run takes.
NOT_YET = "2100-01-01T00:00:00Z"
SCHEDULER = "default-scheduler"  # the real one; pods of any other get their nodes here
HEARTBEAT = 10.0  # seconds; a node that is silent for 50 s is no longer Ready


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Nodes:
    """Nodes that stay Ready while `beat` runs. Nothing else looks after them."""

    def __init__(self, api, names):
        self._api, self.names = api, names
        self.silent = set()  # nodes

    async def make(self):
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady",
                 "lastHeartbeatTime": now(), "lastTransitionTime": now()}
        capacity = {"cpu": "1000", "memory": "1Ti", "pods": "10000"}
        for name in self.names:
            await self._api.call("POST", "/api/v1/nodes", {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"conditions": [ready], "capacity": capacity, "allocatable": capacity}})
        await self._renew()

    async def beat(self):
        while True:
            await asyncio.sleep(HEARTBEAT)
            with contextlib.suppress(ApiError, *UNANSWERED):  # the next one comes in time
                await self._renew()

    async def remove(self):
        for name in self.names:
            await self._api.delete(f"/api/v1/nodes/{name}")

    async def _renew(self):
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        for name in sorted(set(self.names) - self.silent):
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": time}
            try:
                await self._api.patch(f"{leases}/{name}", {"spec": spec})
            except ApiError:
                await self._api.call("POST", leases, {"metadata": {"name": name}, "spec": spec})


class KubeletWriter:
    def __init__(self, api, namespace, nodes, on_change=lambda: None):
        self._api, self._nodes, self._on_change = api, nodes, on_change
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self.pods = {}  # name -> as last seen
        # The first byte of pods' addresses. Nobody listens there: a connection to a multicast group
        # fails at once. And the API server takes them for endpoints, as it takes no loopback's.
        self.network = 239
        self._held = frozenset()  # machines whose pods find no node
        self.instead = lambda pod: None  # the status of a pod that has a node and is not to run
        self._begun = set()  # UIDs of pods that were said to run; what is seen of them may be older

    async def hold(self, machines):
        self._held = frozenset(machines)
        for pod in list(self.pods.values()):
            if not pod["spec"].get("nodeName"):
                await self._attend(pod)

    async def follow(self):
        """Until cancelled."""
        async for kind, found in self._api.follow(self._path):
            changed = found if kind == "LIST" else [found]
            if kind == "LIST":
                self.pods = {pod["metadata"]["name"]: pod for pod in found}
            elif kind == "DELETED":
                self.pods.pop(found["metadata"]["name"], None)
                changed = []
            else:
                self.pods[found["metadata"]["name"]] = found
            self._on_change()
            for pod in changed:
                await self._attend(pod)

    async def terminate(self, name, exit_code, reason="Error", message="", pod_reason=""):
        """Its worker container ends, and so the pod."""
        pod = await self._api.call("GET", f"{self._path}/{name}")
        await self._write_end(pod, exit_code, reason, message, pod_reason)

    async def _attend(self, pod):
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        try:
            if "deletionTimestamp" in pod["metadata"]:
                if pod["status"]["phase"] == "Running":
                    await self._write_end(pod, EXIT_STOPPED, "Error", stopped_message(pod), "")
                await self._api.delete(f"{self._path}/{name}", gracePeriodSeconds=0,
                                       preconditions={"uid": uid})
            elif not pod["spec"].get("nodeName"):
                if pod["spec"]["schedulerName"] != SCHEDULER and not gates(pod):
                    await self._bind(pod)
            elif pod["status"]["phase"] == "Pending" and uid not in self._begun:
                await self._write_status(pod, self.instead(pod) or self._running(pod))
                self._begun.add(uid)
        except ApiError as error:
            if error.status not in (404, 409):  # it went or changed: another event tells
                raise

    async def _bind(self, pod):
        labels = pod["metadata"]["labels"]
        if int(labels.get("lockstep.dev/machine", "-1")) in self._held:
            if not pod["status"].get("conditions"):
                unplaced = {**condition("PodScheduled", "False"), "reason": "Unschedulable",
                            "message": "0/4 nodes are available"}
                await self._write_status(pod, {"conditions": [unplaced]})
            return
        place = int(labels.get("lockstep.dev/machine", "0"))
        if "lockstep.dev/spare" in labels:
            place = -1 - int(labels["lockstep.dev/spare"])  # from the other end
        place %= len(self._nodes)
        nodes = self._nodes[place:] + self._nodes[:place]
        avoided = _preferences(pod, "NotIn")
        fit = [each for each in nodes if each not in avoided] or nodes
        node = _chosen(pod) or max(_preferences(pod, "In").items(), key=lambda each: each[1],
                                   default=fit)[0]
        name = pod["metadata"]["name"]
        await self._api.call("POST", f"{self._path}/{name}/binding", {
            "metadata": {"name": name}, "target": {"kind": "Node", "name": node}})

    def started(self):
        """When a container was that starts now."""
        return NOT_YET

    def address(self, pod):
        """Of its own."""
        return own_address(pod, self.network)

    def _running(self, pod):
        return {
            "phase": "Running", "startTime": now(), "hostIP": "127.0.0.1",
            "podIP": self.address(pod),
            "conditions": [condition(each, "True") for each in
                           ("PodScheduled", "Initialized", "ContainersReady", "Ready")],
            "initContainerStatuses": [
                container(each, {"terminated": {"exitCode": 0, "reason": "Completed"}}, True)
                for each in pod["spec"].get("initContainers", [])],
            "containerStatuses": [container(each, {"running": {"startedAt": self.started()}}, True)
                                  for each in pod["spec"]["containers"]],
        }

    async def _write_end(self, pod, exit_code, reason, message, pod_reason):
        ended = {"terminated": {"exitCode": exit_code, "reason": reason, "message": message,
                                "startedAt": now(), "finishedAt": now()}}
        await self._write_status(pod, {
            "phase": "Failed" if exit_code else "Succeeded", "reason": pod_reason or None,
            "conditions": [condition("PodScheduled", "True"), condition("Initialized", "True"),
                           condition("ContainersReady", "False"), condition("Ready", "False")],
            "containerStatuses": [container(each, ended, False)
                                  for each in pod["spec"]["containers"]]})

    async def _write_status(self, pod, status):
        await self._api.patch(f"{self._path}/{pod['metadata']['name']}/status",
                              {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status})


def own_address(pod, network):
    """One that no other pod of `network`, an IPv4 address's first byte, is likely to have."""
    digest = hashlib.sha256(pod["metadata"]["uid"].encode()).digest()
    return "%d.%d.%d.%d" % (network, 100 + digest[0] % 100, digest[1], 1 + digest[2] % 254)


def gates(pod):
    return pod["spec"].get("schedulingGates", [])


def _chosen(pod):
    """The node that its selector names, if it does."""
    return pod["spec"].get("nodeSelector", {}).get("kubernetes.io/hostname")


def _preferences(pod, operator):
    """Nodes that the pod names for or against, with their weights."""
    terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(
        "preferredDuringSchedulingIgnoredDuringExecution", [])
    return {field["values"][0]: term["weight"] for term in terms
            for field in term["preference"].get("matchFields", []) if field["operator"] == operator}


def condition(kind, status):
    return {"type": kind, "status": status, "lastTransitionTime": now()}


def container(spec, state, ready):
    return {"name": spec["name"], "image": spec.get("image", ""), "imageID": "", "restartCount": 0,
            "ready": ready, "state": state}


def termination(pod, exit_code, verdict, generation="", reason=""):
    """The message of the agent in this pod, as docs/reference/protocol.md has it."""
    labels = pod["metadata"]["labels"]
    return json.dumps({
        "exitCode": exit_code, "generation": generation, "verdict": verdict, "reason": reason,
        "machine": int(labels["lockstep.dev/machine"]),
        "attempt": int(labels["lockstep.dev/attempt"])})


def stopped_message(pod):
    if "lockstep.dev/machine" not in pod["metadata"].get("labels", {}):
        return ""
    return termination(pod, EXIT_STOPPED, verdict=False, reason="SIGTERM")
