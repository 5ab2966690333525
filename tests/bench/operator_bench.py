"""The operator on a real API server with fake nodes, whose pods run at once and have no agents: so
"ready" below is all pods Running. The raw limit, parallel POSTs of the same number of pods, is
measured in the same run.

    tools/bench operator [-- --jobs 50 200 --rounds 3]
"""

import argparse
import base64
import json
import os
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
from _bench import BIN, emit, quantile
from cluster import SCRIPTS, Cluster

PATIENCE = 300.0
GROUP = ("lockstep.dev", "v1alpha1")
AIMS = {"one job of 128": 0.25, "50 jobs of 4": 1.0, "200 jobs of 4": 3.0}


def job(name, machines, **spec):
    return {"apiVersion": "/".join(GROUP), "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {"numMachines": machines, "image": "example.com/train:1",
                     "command": ["train"], "placement": {"onePerNode": "None"}, **spec}}


class Operator:
    """The program under test, as a process of this computer."""

    def __init__(self, cluster, namespace, folder, *options):
        self._log = open(folder / "operator.log", "ab")
        self._process = subprocess.Popen(
            [BIN / "lockstep-operator", "--kubeconfig", cluster.kubeconfig, "--system-namespace",
             namespace, "--agent-image", "agent:bench", "--metrics-address", "127.0.0.1:0",
             "--lease-duration", "5", *options],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)

    def usage(self):
        """Seconds of CPU so far, and MiB of memory now."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return cpu, pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        self._process.terminate()
        self._process.wait(60)
        self._log.close()


class Follower:
    """A watch of one collection, in a thread: calls `see(type, object)` for each event. Python's
    client would spend milliseconds on each."""

    def __init__(self, cluster, path, see):
        config = json.loads(cluster.kubeconfig.read_text())
        server = config["clusters"][0]["cluster"]
        with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as authority:
            authority.write(base64.b64decode(server["certificate-authority-data"]))
        self._answer = requests.get(
            f"{server['server']}{path}?watch=1", stream=True, verify=authority.name,
            headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"})
        os.unlink(authority.name)
        self._answer.raise_for_status()
        self._see = see
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        for line in self._answer.iter_lines(chunk_size=None):
            event = json.loads(line)
            self._see(event["type"], event["object"])


class Bench:
    def __init__(self, cluster, namespace):
        self.cluster, self.namespace = cluster, namespace
        self.custom = kubernetes.client.CustomObjectsApi(cluster.client())
        self.core = kubernetes.client.CoreV1Api(cluster.client())
        self._changed = threading.Condition()
        self.ready, self.created = {}, {}  # job -> when PodsReady; pod -> when it was first seen
        self.pods_running = {}  # job -> when its last pod was seen to run
        Follower(cluster, f"/apis/{'/'.join(GROUP)}/namespaces/{namespace}/trainingjobs",
                 self._see_job)
        Follower(cluster, f"/api/v1/namespaces/{namespace}/pods", self._see_pod)

    def _see_job(self, _, seen):
        conditions = seen.get("status", {}).get("conditions", [])
        if any(each["type"] == "PodsReady" and each["status"] == "True" for each in conditions):
            with self._changed:
                self.ready.setdefault(seen["metadata"]["name"], time.monotonic())
                self._changed.notify_all()

    def _see_pod(self, kind, seen):
        with self._changed:
            if kind == "ADDED":
                self.created.setdefault(seen["metadata"]["name"], time.monotonic())
            if seen["status"].get("phase") == "Running":
                job_name = seen["metadata"]["labels"]["lockstep.dev/job"]
                running = self.pods_running.setdefault(job_name, {})
                running.setdefault(seen["metadata"]["name"], time.monotonic())
            self._changed.notify_all()

    def wait(self, holds, what):
        with self._changed:
            if not self._changed.wait_for(holds, PATIENCE):
                sys.exit(f"waited {PATIENCE:g} s for {what}")

    def submit(self, names, machines):
        """Creates the jobs 16 at a time; when the first request was sent."""
        began = time.monotonic()
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda name: self.custom.create_namespaced_custom_object(
                *GROUP, self.namespace, "trainingjobs", job(name, machines)), names))
        return began

    def remove(self, names):
        for name in names:
            self.custom.delete_namespaced_custom_object(
                *GROUP, self.namespace, "trainingjobs", name)

        def gone():
            pods = self.core.list_namespaced_pod(self.namespace, limit=1).items
            return not pods
        deadline = time.monotonic() + PATIENCE
        while not gone() and time.monotonic() < deadline:
            time.sleep(0.2)


def raw_limit(cluster, namespace, count):
    """Seconds that `count` parallel POSTs of pods take at best, by wrk; None without it."""
    if shutil.which("wrk") is None:
        return None
    pod = {"metadata": {"generateName": "raw-"},
           "spec": {"containers": [{"name": "c", "image": "example.com/x:1"}],
                    "schedulerName": "nobody"}}
    config = json.loads(cluster.kubeconfig.read_text())
    token = config["users"][0]["user"]["token"]
    server = config["clusters"][0]["cluster"]["server"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(f"""wrk.method = "POST"
wrk.body = [=[{json.dumps(pod)}]=]
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {token}"
""")
        script.flush()
        answer = subprocess.run(
            ["wrk", "-t2", "-c32", "-d4s", "-s", script.name,
             f"{server}/api/v1/namespaces/{namespace}/pods"],
            capture_output=True, text=True, check=True).stdout
    rate = next(float(line.split()[1]) for line in answer.splitlines()
                if line.startswith("Requests/sec"))
    return count / rate


def one_large_job(bench, rounds, raw_namespace, machines=128):
    took, raw = [], []
    for index in range(rounds):
        limit = raw_limit(bench.cluster, raw_namespace, machines)
        if limit is not None:
            raw.append(limit)
        name = f"large-{index}"
        began = bench.submit([name], machines)
        names = {f"{name}-{machine}" for machine in range(machines)}
        bench.wait(lambda names=names: names <= bench.created.keys(), "the large job's pods")
        took.append(max(bench.created[each] for each in names) - began)
        bench.remove([name])
    beside = {}
    if raw:
        beside = {"raw": statistics.median(raw), "ratio_aim": 1.7,
                  "ratio": statistics.median(took) / statistics.median(raw)}
    emit("operator", f"one job of {machines} machines: creation to last pod", unit="s",
         median=statistics.median(took), all=took, aim=AIMS["one job of 128"], **beside)


def many_jobs(bench, operator, count, machines=4):
    names = [f"many-{count}-{index}" for index in range(count)]
    cpu, _ = operator.usage()
    began = bench.submit(names, machines)
    bench.wait(lambda: set(names) <= bench.ready.keys(), f"{count} jobs to be ready")
    after, memory = operator.usage()
    bench.wait(lambda: all(len(bench.pods_running.get(name, ())) == machines for name in names),
               "the pods to be seen")
    lags = sorted((bench.ready[name] - max(bench.pods_running[name].values())) * 1000
                  for name in names)
    emit("operator", f"{count} jobs of {machines}: creation to PodsReady of all", unit="s",
         value=max(bench.ready[name] for name in names) - began,
         aim=AIMS.get(f"{count} jobs of {machines}"))
    emit("operator", f"{count} jobs: last pod Running to the condition", unit="ms",
         p50=quantile(lags, 0.5), p99=quantile(lags, 0.99), aim=50)
    emit("operator", f"{count} jobs: CPU a job; memory", cpu_ms=(after - cpu) / count * 1000,
         cpu_aim_ms=2, memory_mib=memory, memory_aim_mib=20)
    return names


def replaced(bench, rounds):
    """A pod deleted by a user to its next attempt, on nodes where death follows at once."""
    took = []
    bench.submit(["victim"], 4)
    bench.wait(lambda: "victim" in bench.ready, "the victim")
    pod = "victim-1"
    for index in range(rounds):
        gone = time.monotonic()
        bench.core.delete_namespaced_pod(pod, bench.namespace, grace_period_seconds=0)
        pod = f"victim-1-r{index + 2}"
        bench.wait(lambda pod=pod: pod in bench.created, pod)
        took.append((bench.created[pod] - gone) * 1000)
    bench.remove(["victim"])
    emit("operator", "pod deleted to its next attempt created", unit="ms",
         p50=quantile(took, 0.5), max=max(took), aim=100)


def failover(bench, operator, cluster, folder):
    """The leader is killed; the one that waits writes."""
    second = Operator(cluster, bench.namespace, folder)
    time.sleep(2)  # until it stands by
    operator.kill()
    gone = time.monotonic()
    bench.submit(["after"], 2)
    bench.wait(lambda: "after-1" in bench.created, "the new leader's pods")
    emit("operator", "leader killed to the new one writing, lease of 5 s", unit="s",
         value=bench.created["after-1"] - gone, aim=6)
    bench.remove(["after"])
    return second


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lockstep-bench-"))
    subprocess.run([SCRIPTS / "up", "--dir", folder / "cluster", "--fake-nodes", "50"], check=True)
    try:
        cluster = Cluster(folder / "cluster")
        cluster.install_crd()
        with cluster.namespace("bench") as namespace, cluster.namespace("raw") as raw_namespace:
            operator = Operator(cluster, namespace, folder)
            bench = Bench(cluster, namespace)
            bench.submit(["warm"], 2)
            bench.wait(lambda: "warm" in bench.ready, "the first job")
            bench.remove(["warm"])
            one_large_job(bench, options.rounds, raw_namespace)
            for count in options.jobs:
                bench.remove(many_jobs(bench, operator, count))
            replaced(bench, options.rounds * 5)
            failover(bench, operator, cluster, folder).stop()
    finally:
        subprocess.run([SCRIPTS / "down", "--dir", folder / "cluster"], check=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
