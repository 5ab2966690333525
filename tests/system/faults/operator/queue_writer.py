"""Kueue as one job sees it: CRDs that take anything, and the answers of its
scheduler written by hand. What Kueue itself makes of the operator's writes is tests/system/api-server/jobs/test_queues.py's."""

import asyncio
import contextlib
import datetime

from api_client import ApiError

GROUP = "kueue.x-k8s.io"
JSON_PATCH = "application/json-patch+json"
RESERVATION = {"clusterQueue": "cq", "podSetAssignments": [
    {"name": "main", "count": 2, "flavors": {"cpu": "plain"}}]}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CONDITION = {**ANYTHING, "properties": {"type": {"type": "string"}}, "required": ["type"]}
CONDITIONS = {"type": "array", "x-kubernetes-list-type": "map",
              "x-kubernetes-list-map-keys": ["type"], "items": CONDITION}


def crd(kind, plural, scope, group=GROUP, version="v1beta2"):
    schema = {**ANYTHING, "properties": {"status": {
        **ANYTHING, "properties": {"conditions": CONDITIONS}}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}",
                         "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
            "spec": {"group": group, "scope": scope,
                     "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                     "versions": [{"name": version, "served": True, "storage": True,
                                   "subresources": {"status": {}},
                                   "schema": {"openAPIV3Schema": schema}}]}}


CRDS = [crd("Workload", "workloads", "Namespaced"),
        crd("ResourceFlavor", "resourceflavors", "Cluster"),
        crd("PodGroup", "podgroups", "Namespaced", "scheduling.x-k8s.io", "v1alpha1")]
FLAVOR = {"apiVersion": f"{GROUP}/v1beta2", "kind": "ResourceFlavor",
          "metadata": {"name": "plain"}, "spec": {"nodeLabels": {"pool": "plain"}}}


class Queue:
    def __init__(self, world):
        self._world = world
        self.admitted_at = []  # how many writes there had been

    async def workload(self):
        """The one that was asked for last, or None."""
        found = (await self._world.api.call("GET", self._world.path("workloads")))["items"]
        return max(found, key=_slice, default=None)

    async def make(self, name, job, count):
        """As MultiKueue does on a worker cluster, before it makes the job."""
        await self._world.api.call("POST", self._world.path("workloads"), {
            "apiVersion": f"{GROUP}/v1beta2", "kind": "Workload",
            "metadata": {"name": name, "labels": {
                "app.kubernetes.io/managed-by": "lockstep", "lockstep.dev/job": job}},
            "spec": {"queueName": "lq", "active": True, "podSets": [
                {"name": "main", "count": count}]}})

    async def admit(self):
        await self._until(_is_there, "a Workload")
        self.admitted_at.append(len(self._world.proxy.writes()))
        await self._judge({"QuotaReserved": ("True", "QuotaReserved"),
                           "Admitted": ("True", "Admitted"), "Evicted": ("False", "QuotaReserved")})

    async def until_asked(self, count):
        """For a Workload in place of one of so many pods, beside which there are no others."""
        await self._until(lambda workload: _is_there(workload) and _slice(workload), "a growth")
        found = (await self._world.api.call("GET", self._world.path("workloads")))["items"]
        counts = [each["spec"]["podSets"][0]["count"] for each in sorted(found, key=_slice)]
        assert counts[0] == count, f"{count} pods are to be counted, and not {counts[0]}"
        pods = await self._pods_that_live()
        assert len(pods) <= count, f"{count} are counted while {pods} are there"

    async def evict(self):
        await self._judge({"Evicted": ("True", "Preempted")})

    async def until_released(self):
        def released(workload):
            return _is_there(workload) and "admission" not in workload.get("status", {})

        await self._until(released, "the release")
        left = await self._pods_that_live()
        assert not left, f"released while {left} are there"

    async def _pods_that_live(self):
        pods = (await self._world.api.call("GET", self._world.path("pods")))["items"]
        return [pod["metadata"]["name"] for pod in pods if "ownerReferences" in pod["metadata"]
                and pod["status"]["phase"] in ("Pending", "Running")]

    async def until_owned(self):
        await self._until(lambda workload: _is_there(workload)
                          and "ownerReferences" in workload["metadata"], "it to be the job's")

    async def until_gone(self):
        await self._until(lambda workload: workload is None, "the Workload to go")

    async def until_told(self, kind, status):
        def told(workload):
            return _is_there(workload) and any(
                (each["type"], each["status"]) == (kind, status)
                for each in workload.get("status", {}).get("conditions", []))

        await self._until(told, f"{kind} to be {status}")

    async def _judge(self, changes):
        """As Kueue's scheduler would write. Again where the operator was faster."""
        while True:
            with contextlib.suppress(ApiError):
                return await self._write(changes)

    async def _write(self, changes):
        workload = await self._until(_is_there, "a Workload")
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = dict(workload.get("status", {}))
        kept = [each for each in status.get("conditions", []) if each["type"] not in changes]
        status["conditions"] = kept + [
            {"type": kind, "status": value, "reason": reason, "message": "",
             "lastTransitionTime": now}
            for kind, (value, reason) in changes.items()]
        status["admission"] = RESERVATION
        path = self._world.path("workloads", workload["metadata"]["name"]) + "/status"
        version = workload["metadata"]["resourceVersion"]
        await self._world.api.call("PATCH", path, [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": status}], JSON_PATCH)

    async def _until(self, condition, what):
        deadline = asyncio.get_running_loop().time() + 120
        while True:
            workload = await self.workload()
            if condition(workload):
                return workload
            assert asyncio.get_running_loop().time() < deadline, f"waited for {what}: {workload}"
            await asyncio.sleep(0.05)


def _slice(workload):
    """The epoch in which it was asked for in place of another; 0: of no other."""
    _, mark, number = workload["metadata"]["name"].rpartition("-s")
    return int(number) if mark else 0


def _is_there(workload):
    return workload is not None
