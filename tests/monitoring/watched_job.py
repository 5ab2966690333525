"""A job that lives through the usual, watched by a Prometheus as the chart would have it: real API
server, operator and agents, scraped by the chart's own PodMonitor and ServiceMonitor.

    with watched_job(cluster, namespace, folder) as job:
        check_panels(job.prometheus.url, job.namespace, job.name, job.start, time.time())

There is no kubelet, so the operator is a process beside, and an EndpointSlice leads to it; and no
GPU, so a stand-in for NVIDIA's exporter serves what one would.
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
from monitors import scrape_configs
from ports import free_port
from processes import children, environment
from prometheus import PATIENCE, Prometheus
from tls import binary
from waiting import wait_until

CHART = pathlib.Path(__file__).resolve().parents[2] / "helm/lockstep"
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
def watched_job(cluster, namespace, folder, model=None):
    """It trains with the built-in trainer until the end of this. `start` is before its creation."""
    cluster.install_crd()
    os.environ["PATH"] = f"{pathlib.Path(binary('lockstep')).parent}:{os.environ['PATH']}"
    port = free_port()
    with contextlib.ExitStack() as stack:
        kubelet = stack.enter_context(AgentKubelet(cluster, namespace, folder / "pods"))
        jobs = Jobs(cluster, namespace, kubelet, folder)
        stack.enter_context(operator(cluster.kubeconfig, folder, "--namespace", namespace,
                                     "--system-namespace", namespace, metrics=str(port)))
        monitors = _install_monitors(jobs, port)
        gpus = stack.enter_context(DcgmExporter(
            lambda: [(namespace, pod) for pod in jobs.pods(NAME)]))
        prometheus = stack.enter_context(Prometheus(folder / "prometheus", [
            *scrape_configs(monitors, cluster.kubeconfig), *gpus.scrape_configs()]))
        prometheus.wait("lockstep_operator_leader == 1")
        start = time.time()
        _apply(jobs, folder, model)
        jobs.wait_state(NAME, "Running")
        yield WatchedJob(prometheus, jobs, start, namespace)
        jobs.kubectl("delete", "tj", NAME, "--wait=false")
        wait_until(lambda: not jobs.pods(NAME), "the job's pods to go", PATIENCE, 0.1)


def _apply(jobs, folder, model):
    model = model or {"layers": 2, "heads": 2, "width": 32, "vocabulary": 256}
    jobs.kubectl("apply", "-f", "-", input=yaml.safe_dump({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": NAME},
        "spec": {
            "numMachines": 2, "processesPerMachine": 2, "image": "example.com/test:1",
            "schedulerName": "nobody", "checkpoint": {"path": str(folder / "checkpoints")},
            "trainer": {"model": model, "data": ["/usr/share/common-licenses/GPL-3"],
                        "steps": 1000000, "globalBatchSize": 8, "sequenceLength": 32,
                        "checkpointEvery": 20}}}))


def _install_monitors(jobs, port):
    """The chart's Service, with an EndpointSlice to the operator; and the chart's monitors."""
    text = jobs.cluster.helm("template", "lockstep", CHART, "--namespace", jobs.namespace, "--set",
                             "monitoring.enabled=true")
    made = [each for each in yaml.safe_load_all(text) if each]
    [service] = [each for each in made if each["kind"] == "Service"]
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
    return [each for each in made if each["kind"] in ("PodMonitor", "ServiceMonitor")]


def _own_address():
    """One that isn't loopback, which no EndpointSlice may hold. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]
