"""A namespace with a job, its operator behind a proxy, and kubelets: where a scenario plays."""

import asyncio
import contextlib
import secrets

from api_client import ApiClient, ApiError
from api_proxy import ApiProxy
from claim_writer import Claim
from kubelet_writer import KubeletWriter, now, termination
from operator_process import OperatorProcess
from queue_writer import Queue

JOB = "gpt"
PATIENCE = 120.0  # seconds for a step of a scenario
# Objects of somebody else that look like the job's own.
DECOYS = {
    "pods": {"metadata": {"name": "gpt-9", "labels": {"lockstep.dev/job": JOB}},
             "spec": {"schedulerName": "faults", "containers": [{"name": "worker", "image": "x"}]}},
    "services": {"metadata": {"name": "gpt-other", "labels": {"lockstep.dev/job": JOB}},
                 "spec": {"clusterIP": "None", "selector": {"lockstep.dev/job": JOB}}},
    "endpointslices": {"metadata": {"name": "gpt-9", "labels": {"lockstep.dev/job": JOB}},
                       "addressType": "IPv4", "endpoints": []},
    "secrets": {"metadata": {"name": "gpt-secret", "labels": {"lockstep.dev/job": JOB}}},
}
GROUPS_OF_KUBERNETES = "podgroups.scheduling.k8s.io"
KINDS = {"pods": "/api/v1", "services": "/api/v1", "secrets": "/api/v1",
         "endpointslices": "/apis/discovery.k8s.io/v1",
         "trainingjobs": "/apis/lockstep.dev/v1alpha1",
         "workloads": "/apis/kueue.x-k8s.io/v1beta2",
         "podgroups": "/apis/scheduling.x-k8s.io/v1alpha1",
         GROUPS_OF_KUBERNETES: "/apis/scheduling.k8s.io/v1alpha2"}


class World:
    def __init__(self, testbed, faults, operators=1, options=()):
        self._testbed = testbed
        self.api = ApiClient(testbed.server)
        self.namespace = f"faults-{secrets.token_hex(4)}"
        folder = testbed.folder / self.namespace
        folder.mkdir()
        self.proxy = ApiProxy(testbed.server, testbed.certificate, faults, self)
        testbed.certificate.write_kubeconfig(folder / "kubeconfig", self.proxy.port,
                                            testbed.server.token, self.namespace)
        self.operators = [OperatorProcess(folder / f"operator-{index}.log", folder / "kubeconfig",
                                          self.namespace, options)
                          for index in range(operators)]
        self.queue, self.claim = Queue(self), Claim(self)
        self.kubelet = KubeletWriter(self.api, self.namespace, testbed.nodes.names, self._changed)
        self.jobs, self.uids, self.decoys = {}, [], {}
        self._change, self._tasks = asyncio.Event(), []

    async def __aenter__(self):
        await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        await self._place_decoys()
        await self.proxy.open()
        for operator in self.operators:
            await operator.start()
        self._tasks = [asyncio.create_task(self.kubelet.follow()),
                       asyncio.create_task(self._follow_jobs())]
        return self

    async def __aexit__(self, *_):
        for operator in self.operators:
            await operator.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.proxy.close()
        await self.api.delete(f"/api/v1/namespaces/{self.namespace}")
        self.api.close()

    # ---- what a scenario does ----

    async def submit(self, machines, name=JOB, labels=None, annotations=None, **spec):
        await self.api.call("POST", self.path("trainingjobs"), {
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
            "spec": {"numMachines": machines, "image": "train:1", "command": ["train"],
                     "schedulerName": "faults", **spec}})

    async def submit_queued(self, machines, **labels):
        """`labels`: more of Kueue's."""
        labels = {"queue-name": "lq", **labels}
        await self.submit(machines, labels={f"kueue.x-k8s.io/{name.replace('_', '-')}": value
                                            for name, value in labels.items()})

    async def change(self, **spec):
        await self.api.patch(self.path("trainingjobs", JOB), {"spec": spec})

    async def delete(self, name=JOB):
        await self.api.delete(self.path("trainingjobs", name), propagationPolicy="Background")

    async def allow_pods(self, count):
        path = f"/api/v1/namespaces/{self.namespace}/resourcequotas"
        spec = {"hard": {"pods": str(count)}}
        if await self.api.find(f"{path}/pods"):
            await self.api.patch(f"{path}/pods", {"spec": spec})
            return
        await self.api.call("POST", path, {"metadata": {"name": "pods"}, "spec": spec})
        # It counts once the quota controller has counted what is there.
        while not (await self.api.find(f"{path}/pods")).get("status", {}).get("hard"):
            await asyncio.sleep(0.05)

    async def succeed(self, names):
        """Every agent ends with the verdict, machine 0's last."""
        for name in reversed(names):
            message = termination(self.kubelet.pods[name], 0, verdict=True, generation="1-1")
            await self.kubelet.terminate(name, 0, "Completed", message)

    async def heed_group(self, name):
        """As a scheduler with Kubernetes' gate says of a group that it has placed."""
        await self.api.patch(self.path(GROUPS_OF_KUBERNETES, name) + "/status", {"status": {
            "conditions": [{"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled",
                            "message": "", "lastTransitionTime": now()}]}})

    # ---- what a scenario waits for ----

    async def until(self, condition, what):
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not condition():
            for task in self._tasks:
                if task.done():
                    task.result()
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise AssertionError(f"waited {PATIENCE:g} s for {what}; status: {self.status()}")
            self._change.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._change.wait(), min(left, 1.0))

    async def until_ready(self, *names):
        """These pods and no others of the job run, and the job's status says so."""
        def ready():
            return self.running() == set(names) and self.condition("PodsReady") == "True" \
                and self.status().get("ready") == f"{len(names)}/{len(names)}" \
                and self.status().get("observedGeneration") == self.job()["metadata"]["generation"]

        await self.until(ready, f"{', '.join(names)} to be ready")

    async def until_gone(self):
        """The job, and all that was made for it, which the garbage collector takes its time for."""
        await self.until(lambda: not self.jobs and not self.running(), "the job to go")
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while any("ownerReferences" in each["metadata"] for each in (await self.objects()).values()):
            assert asyncio.get_running_loop().time() < deadline, "what the job owned is still there"
            await asyncio.sleep(0.1)

    def job(self, name=JOB):
        return self.jobs.get(name, {})

    def status(self, name=JOB):
        return self.job(name).get("status", {})

    def condition(self, kind):
        for each in self.status().get("conditions", []):
            if each["type"] == kind:
                return each["status"]
        return None

    def running(self):
        return {name for name, pod in self.kubelet.pods.items()
                if pod["status"]["phase"] == "Running" and name not in self._decoy_names("pods")}

    # ---- what is left in the end ----

    async def objects(self):
        """{(resource, name): object} of everything but the decoys."""
        found = {}
        for resource in KINDS:
            for item in (await self.api.call("GET", self.path(resource)))["items"]:
                name = item["metadata"]["name"]
                labels = item["metadata"].get("labels", {})
                # Others are made by the cluster, for the Services that are decoys.
                if resource == "endpointslices" and labels.get(
                        "endpointslice.kubernetes.io/managed-by") != "lockstep.dev":
                    continue
                if name not in self._decoy_names(resource):
                    found[resource, name] = item
        return found

    async def decoys_now(self):
        return {resource: (await self.api.call("GET", self.path(resource, name)))
                ["metadata"]["resourceVersion"]
                for resource, name in self._decoys() if resource != "pods"}

    def path(self, resource, name=""):
        plural = resource.partition(".")[0]
        return f"{KINDS[resource]}/namespaces/{self.namespace}/{plural}" + (name and f"/{name}")

    def _decoys(self):
        return [(resource, body["metadata"]["name"]) for resource, body in DECOYS.items()]

    def _decoy_names(self, resource):
        return [name for of, name in self._decoys() if of == resource]

    async def _place_decoys(self):
        await self._until_account()
        for resource, body in DECOYS.items():
            await self.api.call("POST", self.path(resource), body)
        self.decoys = await self.decoys_now()

    async def _until_account(self):
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
        while not await self.api.find(path):
            await asyncio.sleep(0.05)

    async def _follow_jobs(self):
        async for kind, found in self.api.follow(self.path("trainingjobs")):
            if kind == "LIST":
                self.jobs = {job["metadata"]["name"]: job for job in found}
            elif kind == "DELETED":
                self.jobs.pop(found["metadata"]["name"], None)
            else:
                self.jobs[found["metadata"]["name"]] = found
            for job in self.jobs.values():
                if job["metadata"]["uid"] not in self.uids:
                    self.uids.append(job["metadata"]["uid"])
            self._changed()

    def _changed(self):
        self._change.set()

    # ---- what faults do that are not the proxy's own ----

    async def crash(self):
        for operator in self.operators:
            operator.crash()

    async def freeze(self, seconds):
        """The first operator, which is likely the one that leads."""
        await self.operators[0].freeze(seconds)

    async def touch(self, path):
        """Somebody labels the object that is about to be written."""
        path = path.removesuffix("/status")
        with contextlib.suppress(ApiError):
            await self.api.patch(path, {"metadata": {"annotations": {
                "touched": secrets.token_hex(4)}}})
