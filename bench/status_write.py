#!/usr/bin/env python3
"""What a write of a TrainingJob's status costs the API server, in its CPU, beside a kind without a
schema and one without rules, with the same objects.

    tools/bench status_write [-- --writes 300 --rounds 3]

The kinds take turns, so that what else the API server does falls on all. Sizes are of a job of 64
machines of which the status lists 4, or all.
"""

import argparse
import copy
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

import processes
import programs
import yaml
from _bench import emit
from _operator_bench import Server
from cluster import CRD, SCRIPTS, Cluster
from waiting import wait_until

MACHINES = 64
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
POD = {"serviceAccountName": "train", "nodeSelector": {"a": "b"},
       "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
       "containers": [{"name": "worker",
                       "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
       "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
SPEC = {"numMachines": MACHINES, "processesPerMachine": 8, "image": "example.com/train:7",
        "command": ["python", "train.py"], "args": ["--lr", "3e-4"],
        "env": [{"name": f"A{i}", "value": f"v{i}"} for i in range(10)],
        "resourcesPerProcess": {"gpu": 1, "cpu": "8", "memory": "64Gi"},
        "checkpoint": {"claim": "checkpoints", "path": "/checkpoints"}, "template": {"spec": POD}}


def status(listed, number):
    at = f"2026-01-01T00:00:{number % 60:02}Z"
    return {"state": "Running", "ready": f"{listed}/{MACHINES}", "replicas": MACHINES,
            "selector": "lockstep.dev/job=gpt", "epoch": 1,
            "machines": {"desired": MACHINES, "ready": listed},
            "machineStatuses": [{"index": i, "state": "Running", "pod": f"gpt-{i}",
                                 "node": f"pool-0-1234abcd-{i}"} for i in range(listed)],
            "conditions": [{"type": kind, "status": "True", "reason": "AllRanksRunning",
                            "message": "", "lastTransitionTime": at}
                           for kind in ("PodsReady", "Running", "TopologyAligned")]}


def without_rules(schema):
    if isinstance(schema, dict):
        return {key: without_rules(each) for key, each in schema.items()
                if key != "x-kubernetes-validations"}
    return [without_rules(each) for each in schema] if isinstance(schema, list) else schema


def kinds():
    """The CRD as it is, and changed, each in a group of its own: {name: definition}."""
    made = {}
    for name in ("ours", "no-rules", "no-schema"):
        crd = copy.deepcopy(yaml.safe_load(CRD.read_text()))
        schema = crd["spec"]["versions"][0]["schema"]
        if name == "no-rules":
            schema["openAPIV3Schema"] = without_rules(schema["openAPIV3Schema"])
        elif name == "no-schema":
            schema["openAPIV3Schema"] = {"type": "object", "properties": {
                "spec": ANYTHING, "status": ANYTHING}}
        if name != "ours":
            crd["spec"]["group"] = f"{name}.dev"
            crd["metadata"]["name"] = f"trainingjobs.{name}.dev"
            del crd["spec"]["names"]["shortNames"]
        made[name] = crd
    return made


class Kind:
    def __init__(self, name, crd, server, session):
        self.name, self._session = name, session
        group = crd["spec"]["group"]
        self._url = f"{server.url}/apis/{group}/v1alpha1/namespaces/default/trainingjobs"
        job = {"apiVersion": f"{group}/v1alpha1", "kind": "TrainingJob",
               "metadata": {"name": "gpt"}, "spec": SPEC}
        wait_until(lambda: session.post(self._url, json=job).status_code in (201, 409),
                   f"{group} to be served", 120, 0.1)

    def write(self, listed, number):
        self._session.patch(f"{self._url}/gpt/status?fieldManager=operator",
                            json={"status": status(listed, number)},
                            headers={"Content-Type": "application/merge-patch+json"}
                            ).raise_for_status()


def measure(cluster, folder, options):
    server = Server(cluster, folder)
    session = server.session()
    [api_server] = programs.running(cluster.folder, "kube-apiserver")
    made = kinds()
    for crd in made.values():
        url = f"{server.url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        session.post(url, json=crd).raise_for_status()
    found = [Kind(name, crd, server, session) for name, crd in made.items()]
    for listed in (4, MACHINES):
        took = {kind.name: [] for kind in found}
        for each in range(options.rounds + 1):
            for kind in found:
                before = processes.usage(api_server)[0]
                for number in range(options.writes):
                    kind.write(listed, number)
                if each:  # the first warms up
                    took[kind.name].append(
                        (processes.usage(api_server)[0] - before) / options.writes * 1000)
        floor = statistics.median(took["no-schema"])
        for name, values in took.items():
            emit("status_write", f"{name}, {listed} machines listed", unit="ms of CPU a write",
                 value=statistics.median(values), lowest=min(values), highest=max(values),
                 ratio=statistics.median(values) / floor)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lockstep-bench-"))
    subprocess.run([SCRIPTS / "up", "--dir", folder / "cluster"], check=True)
    try:
        measure(Cluster(folder / "cluster"), folder, options)
    finally:
        subprocess.run([SCRIPTS / "down", "--dir", folder / "cluster"], check=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
