"""A job that lives through the usual, watched by a Prometheus as the chart would have it: real API
server, operator and agents, scraped by the chart's own PodMonitor and ServiceMonitor.

    with watched_job(cluster, namespace, folder) as job:
        check_panels(job.prometheus.url, job.namespace, job.name, job.start, time.time())

There is no kubelet, so the operator is a process beside, and an EndpointSlice leads to it; and no
GPU, so a fake of NVIDIA's exporter serves what one would.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket
import time

import yaml
from agent_kubelet import AgentKubelet
from dcgm import DcgmExporter
from jobs import Jobs, operator
from monitors import chart_objects, scrape_configs
from ports import free_port
from processes import children, environment
from prometheus import PATIENCE, Prometheus
from tls import binary
from waiting import wait_until

NAME = "gpt"


@dataclasses.dataclass
class WatchedJob:
    prometheus: Prometheus
    jobs: Jobs
    start: float  # seconds since 1970
    namespace: str
    name: str = NAME

    def ranks(self):
        """Process ids by rank."""
        found = {}
        for pod in self.jobs.pods(self.name):
            below = children(self.jobs.kubelet.process(pod).pid)
            while below:
                pid = below.pop()
                below += children(pid)
                if "RANK" in environment(pid):
                    found[int(environment(pid)["RANK"])] = pid
        return found

    def kill_rank(self, rank):
        before = self.jobs.status(self.name)["restarts"]["total"]
        os.kill(wait_until(lambda: self.ranks().get(rank), f"rank {rank}", PATIENCE),
                signal.SIGKILL)
        self._wait_running(before + 1)

    def lose_machine(self, machine):
        before = self.jobs.status(self.name)["restarts"]["total"]
        [pod] = [pod for pod in self.jobs.pods(self.name)
                 if pod.startswith(f"{self.name}-{machine}")]
        self.jobs.kubelet.process(pod).kill()
        self._wait_running(before + 1)

    def _wait_running(self, restarts):
        self.jobs.wait(self.name, lambda status: status["state"] == "Running"
                       and status["restarts"]["total"] >= restarts, f"{restarts} restarts")


@contextlib.contextmanager
def watched_job(cluster, namespace, folder, **trainer):
    """It trains with the built-in trainer until the end of this. `start` is before its creation."""
    cluster.install_crd()
    os.environ["PATH"] = f"{pathlib.Path(binary('lockstep')).parent}:{os.environ['PATH']}"
    port = free_port()
    with contextlib.ExitStack() as stack:
        kubelet = stack.enter_context(AgentKubelet(cluster, namespace, folder / "pods"))
        jobs = Jobs(cluster, namespace, kubelet, folder)
        stack.enter_context(operator(cluster.kubeconfig, folder, "--namespace", namespace,
                                     "--system-namespace", namespace, metrics=str(port)))
        objects = chart_objects(cluster, namespace)
        _lead_to_operator(jobs, objects, port)
        # A folder a pod; those that have ended are found by no query.
        gpus = stack.enter_context(DcgmExporter(
            lambda machine: [(namespace, pod.name)
                             for pod in (folder / "pods").glob(f"{NAME}-{machine}*")]))
        prometheus = stack.enter_context(Prometheus(folder / "prometheus", [
            *scrape_configs(objects, cluster.kubeconfig), *gpus.scrape_configs()]))
        start = time.time()  # a scrape of the operator lies between this and the job's creation
        prometheus.wait("lockstep_operator_leader == 1")
        apply(jobs, NAME, **trainer)
        jobs.wait_state(NAME, "Running")
        yield WatchedJob(prometheus, jobs, start, namespace)
        jobs.kubectl("delete", "tj", "--all", "--wait=false")
        wait_until(lambda: not jobs.kubectl("get", "pods", "-o", "name"), "the pods to go",
                   PATIENCE, 0.1)


def apply(jobs, name, machines=2, **trainer):
    """A job of the built-in trainer, two processes a machine, with these changes to it."""
    jobs.kubectl("apply", "-f", "-", input=yaml.safe_dump({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
        "spec": {
            "numMachines": machines, "processesPerMachine": 2, "image": "example.com/test:1",
            "schedulerName": "nobody",
            "checkpoint": {"path": str(jobs.folder / "checkpoints" / name)},
            "trainer": {"modelShape": {"layers": 2, "heads": 2, "width": 32, "vocabulary": 256},
                        "data": ["/usr/share/common-licenses/GPL-3"], "steps": 1000000,
                        "globalBatchSize": 8, "sequenceLength": 32, "checkpointEvery": 20,
                        "validationData": ["/usr/share/common-licenses/Apache-2.0"],
                        "validateEvery": 20, "validationSamples": 8,
                        "measureScaling": True, **trainer}}}))


def _lead_to_operator(jobs, objects, port):
    """The chart's Service, with an EndpointSlice to the operator."""
    [service] = [each for each in objects if each["kind"] == "Service"]
    # The slice's controller would see to it that it is empty.
    del service["spec"]["selector"]
    name = service["metadata"]["name"]
    slice_ = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
              "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name,
                                                    **service["metadata"]["labels"]}},
              "addressType": "IPv4", "ports": [{"name": "http", "port": port}],
              "endpoints": [{"addresses": [_own_address()], "conditions": {"ready": True}}]}
    jobs.kubectl("apply", "-f", "-", input=json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": [service, slice_]}))


def _own_address():
    """One that isn't loopback, which no EndpointSlice may hold. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]
