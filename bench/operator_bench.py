"""The operator on a real API server with fake nodes, whose pods run at once and have no agents: so
"ready" below is all pods Running. The raw limit, parallel POSTs of the same number of pods, is
measured in the same run; so is JobSet, where --peer asks for it.

    tools/bench operator [-- --jobs 50 200 --rounds 3 --many 2000 --peer --start 1024
                             --gangs 4096 --running 10000]

With --gangs and --running pods have agents (_agents.py): all of it then runs in a network of its
own.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kubernetes
import requests
from _agents import PODS, Agents, own_network
from _bench import emit, quantile
from _dns import Dns
from _jobset import Beside, JobSet
from _operator_bench import Operator, Server, answered, creation, wait_for
from cluster import SCRIPTS, Cluster
from kubelet_writer import termination

PATIENCE = 600
GROUP = ("lockstep.dev", "v1alpha1")
AIMS = {"50 jobs of 4": 1.0, "200 jobs of 4": 3.0}
LEASE = 15  # seconds, the default
KILLS = 20
REST = 3  # seconds, for what the control plane does behind a deletion


def job(name, machines, **spec):
    return {"apiVersion": "/".join(GROUP), "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {"numMachines": machines, "image": "example.com/train:1", "command": ["train"],
                     "placement": {"onePerNode": "None"}, **spec}}


class Bench:
    """One namespace, and when what was seen in it: in seconds of time.monotonic()."""

    def __init__(self, cluster, namespace, folder, operator):
        self.namespace, self.operator = namespace, operator
        self.agents = None
        self.server = Server(cluster, folder)
        self.custom = kubernetes.client.CustomObjectsApi(cluster.client())
        self.core = kubernetes.client.CoreV1Api(cluster.client())
        self._changed = threading.Condition()
        self.jobs = set()
        self.ready, self.succeeded = {}, {}  # jobs
        self.states = {}  # of jobs
        self.generations = {}  # of gangs -> when each was seen to run
        self.created, self.running, self.ended, self.deleted = {}, {}, {}, {}  # pods
        self.pods = {}  # pod -> as last seen, without its status
        self.jobs_path = f"/apis/{'/'.join(GROUP)}/namespaces/{namespace}/trainingjobs"
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self.server.follow(self.jobs_path, self._see_job)
        self.server.follow(self.pods_path, self._see_pod)

    def _see_job(self, kind, seen):
        at, name, status = time.monotonic(), seen["metadata"]["name"], seen.get("status", {})
        with self._changed:
            (self.jobs.discard if kind == "DELETED" else self.jobs.add)(name)
            if any(each["type"] == "PodsReady" and each["status"] == "True"
                   for each in status.get("conditions", [])):
                self.ready.setdefault(name, at)
            self.states[name] = status.get("state")
            if status.get("state") == "Succeeded":
                self.succeeded.setdefault(name, at)
            if status.get("state") == "Running":
                seen_to_run = self.generations.setdefault(name, {})
                seen_to_run.setdefault(status.get("gangGeneration"), at)
            self._changed.notify_all()

    def _see_pod(self, kind, seen):
        at, name = time.monotonic(), seen["metadata"]["name"]
        with self._changed:
            self.created.setdefault(name, at)
            phase = seen.pop("status").get("phase")
            if phase == "Running":
                self.running.setdefault(name, at)
            if phase == "Failed":
                self.ended.setdefault(name, at)
            if kind == "DELETED":
                self.deleted.setdefault(name, at)
                self.pods.pop(name, None)
            else:
                self.pods[name] = seen
            self._changed.notify_all()

    def wait(self, holds, what, patience=PATIENCE):
        deadline = time.monotonic() + patience
        with self._changed:
            while not self._changed.wait_for(holds, 1):
                if time.monotonic() > deadline:
                    sys.exit(f"waited {patience:g} s for {what}")
                for program in (self.operator, self.agents):
                    if program and not program.runs():
                        sys.exit("it has ended:\n" + program.log())

    def wait_ready(self, names):
        self.wait(lambda: all(name in self.ready for name in names), f"{names[0]}, ...")

    def submit(self, names, machines):
        """Creates the jobs; when the first request was sent."""
        return self.server.post_all(self.jobs_path, [job(name, machines) for name in names])

    def end(self, pod, code, reason, message=""):
        """Of its worker container, as its kubelet would tell."""
        born = pod["metadata"]["creationTimestamp"]
        ended = {"exitCode": code, "reason": reason, "message": message, "startedAt": born,
                 "finishedAt": born}
        self.server.session().patch(
            f"{self.server.url}{self.pods_path}/{pod['metadata']['name']}/status",
            headers={"Content-Type": "application/merge-patch+json"},
            data=json.dumps({"status": {
                "phase": "Failed" if code else "Succeeded", "containerStatuses": [
                    {"name": "worker", "image": "", "imageID": "", "ready": False,
                     "restartCount": 0, "state": {"terminated": ended}}]}})).raise_for_status()

    def kill(self, name):
        """A pod for want of memory, and when that was seen."""
        self.end(self.pods[name], 137, "OOMKilled")
        self.wait(lambda: name in self.ended, f"the end of {name}")
        return self.ended[name]

    def remove(self, names):
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda name: self.custom.delete_namespaced_custom_object(
                *GROUP, self.namespace, "trainingjobs", name), names))
        self.wait(lambda: not self.pods, "the pods to go")


def one_large_job(bench, cluster, rounds, raw_namespace, machines=128):
    """Beside two limits: of small pods that nobody schedules, and of the operator's own pods, with
    all that scheduler and nodes then write. Each begins with a control plane at rest."""
    small = {"metadata": {"generateName": "raw-"},
             "spec": {"containers": [{"name": "c", "image": "example.com/x:1"}],
                      "schedulerName": "nobody"}}
    took, raw, raw_same = [], [], []
    raw_path = f"/api/v1/namespaces/{raw_namespace}/pods"

    def raw_seconds(pod):
        rate = bench.server.raw_rate(raw_path, pod, 1)
        remove_pods(bench, raw_namespace)
        time.sleep(REST)
        return machines / rate

    for index in range(rounds):
        name = f"large-{index}"
        bench.submit([name], machines)
        bench.wait_ready([name])
        took.append(creation(cluster, bench.namespace, "trainingjobs", machines))
        same = {"metadata": {"generateName": "raw-"}, "spec": bench.pods[f"{name}-0"]["spec"]}
        del same["spec"]["nodeName"]
        bench.remove([name])
        time.sleep(REST)
        if shutil.which("wrk"):
            raw.append(raw_seconds(small))
            raw_same.append(raw_seconds(same))
    beside = {}
    if raw:
        ratios = [mine / limit for mine, limit in zip(took, raw)]
        beside = {"raw": raw, "ratio": statistics.median(ratios), "ratio_best": min(ratios),
                  "ratio_aim": 1.7, "raw_of_same_pods": raw_same, "ratio_to_same_pods":
                  statistics.median(mine / limit for mine, limit in zip(took, raw_same))}
    emit("operator", f"one job of {machines} machines: creation to last pod", unit="s",
         median=statistics.median(took), all=took, aim=0.25, **beside)


def remove_pods(bench, namespace):
    """What wrk had sent when it was ended may come to be after a first look."""
    def gone():
        bench.core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)
        return not bench.core.list_namespaced_pod(namespace, limit=1).items
    wait_for(gone, "the raw pods to go")


def limit(bench, pods):
    """As many pods as jobs of so many machines have, POSTed by wrk: from the first request until
    they run. No operator has anything to do with them."""
    if not shutil.which("wrk"):
        return
    pod = {"metadata": {"generateName": "raw-"}, "spec": template(bench)["spec"]}
    before = len(bench.running)
    began = time.monotonic()
    created = len(bench.created)
    bench.server.raw_rate(bench.pods_path, pod, PATIENCE,
                          lambda: len(bench.created) >= created + pods)
    bench.wait(lambda: len(bench.running) >= before + pods, "the raw pods")
    emit("operator", f"{pods} such pods by wrk, without jobs: first request to all running",
         unit="s", value=time.monotonic() - began)
    remove_pods(bench, bench.namespace)
    bench.wait(lambda: not bench.pods, "the raw pods to go")


def many_jobs(bench, count, machines=4):
    names = [f"many-{count}-{index}" for index in range(count)]
    cpu = bench.operator.cpu()
    began = bench.submit(names, machines)
    bench.wait_ready(names)
    cpu = bench.operator.cpu() - cpu
    pods = {name: [f"{name}-{machine}" for machine in range(machines)] for name in names}
    bench.wait(lambda: all(pod in bench.running for each in pods.values() for pod in each),
               "the pods to be seen")
    lags = [(bench.ready[name] - max(bench.running[pod] for pod in pods[name])) * 1000
            for name in names]
    emit("operator", f"{count} jobs of {machines}: creation to PodsReady of all", unit="s",
         value=max(bench.ready[name] for name in names) - began,
         aim=AIMS.get(f"{count} jobs of {machines}"))
    emit("operator", f"{count} jobs: last pod Running to the condition", unit="ms",
         p50=quantile(lags, 0.5), p99=quantile(lags, 0.99), aim=50)
    emit("operator", f"{count} jobs: CPU a job; memory", cpu_ms=cpu / count * 1000,
         cpu_aim_ms=2, **bench.operator.memory(), memory_aim_mib=20)
    return names


def replaced(bench, names):
    """A pod of each job deleted by a user: from its going to its next attempt."""
    took = []
    for name in names:
        bench.core.delete_namespaced_pod(f"{name}-1", bench.namespace)
        after = f"{name}-1-r2"
        bench.wait(lambda after=after: after in bench.created, after)
        took.append((bench.created[after] - bench.deleted[f"{name}-1"]) * 1000)
    emit("operator", "pod deleted by a user: its end to its next attempt created", unit="ms",
         samples=len(took), p50=quantile(took, 0.5), p99=quantile(took, 0.99), aim=100)


def writes(bench, machines=32):
    """All the writes of one job from its creation to its success."""
    before = bench.operator.writes()
    began = bench.submit(["whole"], machines)
    bench.wait_ready(["whole"])
    for machine in reversed(range(machines)):
        pod = bench.pods[f"whole-{machine}"]
        bench.end(pod, 0, "Completed", termination(pod, 0, verdict=True, generation="1-1"))
    bench.wait(lambda: "whole" in bench.succeeded, "the job's success")
    time.sleep(2)  # events follow the status
    emit("operator", f"writes for one job of {machines} machines, creation to success",
         value=(bench.operator.writes() - before).total(), aim=machines + 10,
         took_s=bench.succeeded["whole"] - began)  # counts on their way are written once a second
    bench.remove(["whole"])


def start(bench, cluster, folder, machines):
    """One gang of very many machines: how soon its pods run, what its names write, and whether a
    cluster's DNS then knows each."""
    name = f"start-{machines}"
    cpu = bench.operator.cpu()
    began = bench.submit([name], machines)
    bench.wait_ready([name])
    ready = bench.ready[name] - began
    api = kubernetes.client.DiscoveryV1Api(cluster.client())
    pods = {f"{name}-{machine}" for machine in range(machines)}

    def slices():
        return [each for each in api.list_namespaced_endpoint_slice(bench.namespace).items
                if each.metadata.labels["kubernetes.io/service-name"] == name]

    wait_for(lambda: sum(len(each.endpoints or []) for each in slices()) == machines,
             "the names of all machines")
    cpu = bench.operator.cpu() - cpu
    sizes = {each.metadata.name: len(json.dumps(api.api_client.sanitize_for_serialization(each)))
             for each in slices()}
    written = [entry["objectRef"]["name"]
               for entry in answered(cluster, bench.namespace, "endpointslices", "endpoints")
               if entry["objectRef"].get("name") in sizes]
    with Dns(cluster, folder) as dns:
        suffix = f"{name}.{bench.namespace}"
        wait_for(lambda: dns.ask(f"{name}-{machines - 1}.{suffix}"), "DNS to know the last one")
        known = sum(dns.ask(f"{pod}.{suffix}") for pod in pods)
    emit("operator", f"one job of {machines} machines: creation to PodsReady", unit="s",
         value=ready, cpu_s=cpu, **bench.operator.memory())
    # Each write is at most as large as what stands there in the end.
    emit("operator", f"one job of {machines} machines: its names", slices=len(sizes),
         writes=len(written), most_bytes=sum(sizes[each] for each in written), aim_bytes=2**20,
         resolved=known, aim_resolved=machines)
    bench.remove([name])


def gang(bench, machines):
    """One gang whose machines have agents: from its creation until its ranks run, and again where
    one machine is replaced."""
    name = f"gang-{machines}"
    cpu = bench.operator.cpu()
    began = bench.submit([name], machines)
    bench.wait(lambda: name in bench.generations, f"{name} to run")
    [(first, running)] = bench.generations[name].items()
    emit("operator", f"one gang of {machines} machines: creation to ranks running", unit="s",
         value=running - began, pods_ready_s=bench.ready[name] - began,
         cpu_s=bench.operator.cpu() - cpu, **bench.operator.memory())
    cpu, rest = bench.operator.cpu(), 30
    time.sleep(rest)
    emit("operator", f"one gang of {machines} machines, at rest: CPU of a core", unit="%",
         value=(bench.operator.cpu() - cpu) / rest * 100, agents_mib=bench.agents.memory_mib())
    last = machines - 1
    gone = bench.kill(f"{name}-{last}")
    bench.wait(lambda: len(bench.generations[name]) > 1, "the next generation")
    again = next(at for each, at in bench.generations[name].items() if each != first)
    emit("operator", f"one gang of {machines} machines, a pod killed: its end to ranks running",
         unit="s", value=again - gone, created_s=bench.created[f"{name}-{last}-r2"] - gone)
    bench.remove([name])


def running(bench, cluster, folder, count):
    """Very many gangs of one machine, all of which run: what they cost, how soon the death of one
    is decided on, and a new operator knows them all."""
    cpu = bench.operator.cpu()
    began = time.monotonic()
    alone = job("running-%d", 1, network={"hostnames": False})
    bench.server.raw_rate(bench.jobs_path, alone, PATIENCE,
                          lambda: len(bench.jobs) >= count)
    bench.wait(lambda: list(bench.states.values()).count("Running") >= count,
               "all gangs to run", 3600)
    emit("operator", f"{count} jobs of 1: creation to ranks running of all", unit="s",
         jobs=len(bench.jobs), value=time.monotonic() - began,
         cpu_ms=(bench.operator.cpu() - cpu) / count * 1000, **bench.operator.memory())
    tell_of_running(bench, count)
    bench.operator.stop()
    bench.operator = Operator(cluster, bench.namespace, folder)
    began = time.monotonic()
    wait_for(lambda: is_ready(bench.operator), "the operator to know it all")
    emit("operator", f"{count} running jobs: an operator's start to synced", unit="s",
         value=time.monotonic() - began, cpu_s=bench.operator.cpu())
    time.sleep(30)  # it hears of every gang, and decides on it
    tell_of_running(bench, count)


def tell_of_running(bench, count):
    cpu, others, rest = bench.operator.cpu(), bench.agents.cpu(), 60
    written = bench.operator.writes()
    time.sleep(rest)
    emit("operator", f"{count} jobs run, at rest: CPU of a core", unit="%",
         value=(bench.operator.cpu() - cpu) / rest * 100,
         agents=(bench.agents.cpu() - others) / rest * 100, **bench.operator.memory(),
         writes_a_second={kind: count / rest for kind, count in
                          (bench.operator.writes() - written).items()})
    took = []
    for name in [name for name in sorted(bench.jobs) if f"{name}-0" not in bench.ended][:KILLS]:
        gone, after = bench.kill(f"{name}-0"), f"{name}-0-r2"
        bench.wait(lambda after=after: after in bench.created, after)
        took.append((bench.created[after] - gone) * 1000)
    emit("operator", f"{count} jobs run, a pod killed: its end to its next attempt created",
         unit="ms", samples=len(took), p50=quantile(took, 0.5), worst=max(took), aim=1000)


def failover(bench, cluster, folder):
    """The leader is killed; the one that waits writes."""
    leader, second = bench.operator, Operator(cluster, bench.namespace, folder)
    wait_for(lambda: is_ready(second), "the second operator")
    leader.kill()
    gone = time.monotonic()
    bench.operator = second
    bench.submit(["after"], 2)
    bench.wait(lambda: "after-1" in bench.created, "the new leader's pods")
    emit("operator", f"leader killed to the new one writing, lease of {LEASE} s", unit="s",
         value=bench.created["after-1"] - gone, aim=LEASE + 1)
    bench.remove(["after"])


def is_ready(operator):
    try:
        answer = operator.ask("/readyz")
    except requests.ConnectionError:
        return False
    return answer is not None and answer.status_code == 200


def template(bench):
    """A pod as the operator makes it, to be made again by others."""
    bench.submit(["template"], 1)
    bench.wait_ready(["template"])
    pod = bench.pods["template-0"]
    bench.remove(["template"])
    bench.ready.pop("template")
    del pod["spec"]["nodeName"]
    return pod


def peer(cluster, folder, counts):
    """JobSet on the same API server, with as many jobs of as many pods."""
    manager = JobSet(cluster, folder)
    try:
        with cluster.namespace("peer") as namespace:
            beside = Beside(Server(cluster, folder), namespace)
            beside.run(["warm"], 2)
            beside.run(["large"], 128)
            emit("operator", "JobSet, one job of 128 machines: creation to last pod", unit="s",
                 value=creation(cluster, namespace, "jobsets", 128))
            for count in counts:
                cpu = manager.cpu()
                running = beside.run([f"many-{count}-{index}" for index in range(count)], 4)
                emit("operator", f"JobSet, {count} jobs of 4: creation to all pods running",
                     unit="s", value=running, cpu_ms_a_job=(manager.cpu() - cpu) / count * 1000,
                     **manager.memory())
    finally:
        manager.stop()


def full(bench, cluster, folder, count, machines=10):
    """Very many jobs, which another controller manages, and pods that bear their names: what they
    weigh in the caches, and how soon a new operator knows them all."""
    seen = template(bench)
    pod = {"metadata": {"name": "full-%d", "labels": {**seen["metadata"]["labels"],
                                                      "lockstep.dev/job": "full-%d"}},
           "spec": {**seen["spec"], "schedulerName": "nobody"}}
    bench.operator.stop()
    server = bench.server
    server.raw_rate(bench.jobs_path, job("full-%d", machines, managedBy="example.com/other"),
                    PATIENCE, lambda: len(bench.jobs) >= count)
    server.raw_rate(bench.pods_path, pod, PATIENCE, lambda: len(bench.pods) >= count * machines)
    bench.operator = Operator(cluster, bench.namespace, folder)
    began = time.monotonic()
    wait_for(lambda: is_ready(bench.operator), "the operator to know it all")
    synced, cpu = time.monotonic() - began, bench.operator.cpu()
    time.sleep(10)  # every job is looked at once
    began = time.monotonic()
    read = sum(map(server.read_all, (bench.jobs_path, bench.pods_path)))
    emit("operator", f"{count} jobs, {count * machines} pods cached: memory; start to synced",
         jobs=len(bench.jobs), pods=len(bench.pods), **bench.operator.memory(), synced_s=synced,
         cpu_s=cpu, only_read_s=time.monotonic() - began, read_mb=read / 1e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="*", default=[50, 200])
    parser.add_argument("--rounds", type=int, default=3, help="of one large job; 0: not that")
    parser.add_argument("--peer", action="store_true", help="JobSet too, which is built first")
    parser.add_argument("--start", type=int, nargs="*", default=[1024], metavar="MACHINES")
    parser.add_argument("--many", type=int, default=2000, metavar="JOBS", help="0: not that")
    parser.add_argument("--gangs", type=int, nargs="*", default=[], metavar="MACHINES")
    parser.add_argument("--running", type=int, default=0, metavar="JOBS",
                        help="10,000 take more than half an hour on two cores")
    options = parser.parse_args()
    agents = options.gangs or options.running
    if agents:
        own_network()
    folder = Path(tempfile.mkdtemp(prefix="lockstep-bench-"))
    subprocess.run([SCRIPTS / "up", "--dir", folder / "cluster", "--fake-nodes", "50", "--audit",
                    *(["--fake-pods", PODS] if agents else [])], check=True)
    try:
        cluster = Cluster(folder / "cluster")
        cluster.install_crd()
        with cluster.namespace("bench") as namespace, cluster.namespace("raw") as raw_namespace:
            operator = Operator(cluster, namespace, folder)
            bench = Bench(cluster, namespace, folder, operator)
            bench.submit(["warm"], 2)
            bench.wait_ready(["warm"])
            bench.remove(["warm"])
            if options.rounds:
                one_large_job(bench, cluster, options.rounds, raw_namespace)
                writes(bench)
            for machines in options.start:
                start(bench, cluster, folder, machines)
            if options.jobs:
                limit(bench, 4 * max(options.jobs))
            for count in options.jobs:
                names = many_jobs(bench, count)
                if count == max(options.jobs):
                    # The rate limiter allows 5 % a minute.
                    replaced(bench, names[:max(1, count * 4 // 25)])
                bench.remove(names)
            failover(bench, cluster, folder)
            if options.peer:
                bench.operator.stop()
                peer(cluster, folder, options.jobs)
                bench.operator = Operator(cluster, namespace, folder)
            if agents:
                with Agents(bench.server, namespace, folder) as bench.agents:
                    for machines in options.gangs:
                        gang(bench, machines)
                    if options.running:
                        running(bench, cluster, folder, options.running)
            if options.many:
                full(bench, cluster, folder, options.many)
            bench.operator.stop()
    finally:
        subprocess.run([SCRIPTS / "down", "--dir", folder / "cluster"], check=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
