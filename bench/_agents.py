"""The agents of pods that only pretend: real coordinators and members, without ranks.

    own_network()                          # before anything else: this process's own loopback
    with Agents(bench.server, namespace, folder):
        ...                                # gangs of this namespace run
"""

import base64
import json
import os
import subprocess
import sys
import threading

from _bench import BIN
from _operator_bench import Process

PODS = "10.64.0.0/16"  # all of it is this computer's, within own_network
GANG_PORT = 7070
INSIDE = "LOCKSTEP_BENCH_NETWORK"
PROGRAMS = 4  # for one may open only so many files; each has gangs of its own


def own_network():
    """Begins this program again where pods' addresses can be listened on and lead nowhere else."""
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        root = [] if os.geteuid() == 0 else ["--map-root-user"]
        os.execvp("unshare", ["unshare", "--net", *root, sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "route", "add", "local", PODS, "dev", "lo"], check=True)


class Agents:
    def __init__(self, server, namespace, folder):
        self._programs = [Process([BIN / "lockstep-bench", "agents"], folder, subprocess.PIPE)
                          for _ in range(PROGRAMS)]
        self._lock, self._ended = threading.Lock(), False
        self._keys = {}  # Secret -> hexadecimal
        self._pods = {}  # that run, and wait for their Secret or their machine 0
        self._told = set()  # UIDs of pods whose agents run
        self._coordinators = {}  # job's UID -> where its machine 0 listens
        for resource, see in (("secrets", self._see_secret), ("pods", self._see_pod)):
            server.follow(f"/api/v1/namespaces/{namespace}/{resource}", see)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self._lock:
            self._ended = True
            for each in self._programs:
                each.kill()

    def runs(self):
        return all(each.runs() for each in self._programs)

    def log(self):
        return "".join(each.log() for each in self._programs)

    def cpu(self):
        return sum(each.cpu() for each in self._programs)

    def memory_mib(self):
        return sum(each.memory()["memory_mib"] for each in self._programs)

    def _see_secret(self, _, secret):
        if "gang" not in secret.get("data", {}):
            return
        with self._lock:
            key = base64.b64decode(secret["data"]["gang"])
            self._keys[secret["metadata"]["name"]] = key.hex()
            self._start_all()

    def _see_pod(self, kind, pod):
        uid = pod["metadata"]["uid"]
        if "lockstep.dev/machine" not in pod["metadata"].get("labels", {}):
            return
        with self._lock:
            phase = pod["status"].get("phase")
            if kind == "DELETED" or phase in ("Failed", "Succeeded"):
                self._pods.pop(uid, None)
                if uid in self._told:
                    self._told.discard(uid)
                    job, machine = _place(pod)
                    self._say(job, {"end": {"jobUid": job, "machine": machine}})
            elif phase == "Running" and uid not in self._told:
                self._pods[uid] = pod
                self._start_all()

    def _start_all(self):
        """Machine 0 of a gang before its others."""
        for uid, pod in sorted(self._pods.items(), key=lambda each: _place(each[1])[1]):
            config = self._config(pod)
            if config is not None:
                del self._pods[uid]
                self._told.add(uid)
                self._say(_place(pod)[0], {"start": config})

    def _config(self, pod):
        """As the pod's agent reads it; None before its key and its machine 0 are known."""
        key = self._keys.get(_secret(pod))
        job, machine = _place(pod)
        address = pod["status"]["podIP"]
        if key is not None and machine == 0:
            self._coordinators[job] = f"{address}:{GANG_PORT}"
        if key is None or job not in self._coordinators:
            return None
        [worker] = [each for each in pod["spec"]["containers"] if each["name"] == "worker"]
        [text] = [each["value"] for each in worker["env"] if each["name"] == "LOCKSTEP_CONFIG"]
        config = json.loads(text.replace("$(LOCKSTEP_POD_IP)", address).replace("$$", "$"))
        del config["keyFile"]
        return {**config, "key": key, "coordinator": self._coordinators[job]}

    def _say(self, job, line):
        if self._ended:
            return
        program = self._programs[int(job.partition("-")[0], 16) % PROGRAMS]
        program.say(json.dumps(line).encode() + b"\n")


def _place(pod):
    """Its job's UID, and its machine."""
    [owner] = pod["metadata"]["ownerReferences"]
    return owner["uid"], int(pod["metadata"]["labels"]["lockstep.dev/machine"])


def _secret(pod):
    """That of its gang's key."""
    return next(volume["secret"]["secretName"] for volume in pod["spec"]["volumes"]
                if "-key-" in volume.get("secret", {}).get("secretName", ""))
