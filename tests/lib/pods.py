"""The agents of a gang as pods run them: told by LOCKSTEP_CONFIG, listening on the wildcard,
unprivileged, as process 1 on a read-only root (pod.sh). What a pod's network would give stands in
ports: each agent has two of its own.

    with Pods(folder, machines=2, command=["train"]) as pods:
        pods.start(0)
        pods.start(1)
        assert pods.end(0)["exitCode"] == 0
"""

import contextlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import uuid

import processes
from ports import free_port
from tls import Closed, HttpClient, TlsConnection, binary
from waiting import wait_until

SCRIPT = pathlib.Path(__file__).parent / "pod.sh"
PATIENCE = 60


class Pod:
    def __init__(self, process, folder):
        self.process, self.folder = process, folder

    @property
    def output(self):
        return (self.folder / "stdout").read_text(errors="replace")

    @property
    def log(self):
        return (self.folder / "stderr").read_text(errors="replace")

    def agent(self):
        """Its process, once it is the agent."""
        def found():
            return [p for p in processes.children(self.process.pid)
                    if processes.name(p) == "lockstep-agent"]

        return wait_until(found, lambda: f"the agent to run\n{self.log}", PATIENCE)[0]

    def terminate(self):
        """SIGTERM, as kubelet sends it: to process 1, whatever it does."""
        os.kill(self.agent(), signal.SIGTERM)


class Pods:
    def __init__(self, folder, machines=1, any_address="0.0.0.0", loopback="127.0.0.1", **spec):
        self.folder, self.any, self.loopback = folder, any_address, loopback
        self.job_uid, self.key = str(uuid.uuid4()), secrets.token_bytes(32)
        self.job = {
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "pods"}, "spec": {"numMachines": machines, **spec},
        }
        self.ports = [free_port() for _ in range(machines)]
        self.metrics_ports = [free_port() for _ in range(machines)]
        self.pods = {}
        (folder / "key").write_bytes(self.key)
        self.image = folder / "image"  # programs that the job's image brings
        self.image.mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pod in self.pods.values():
            # unshare's --kill-child ends with pod.sh's change of user. With process 1 ends all of its
            # namespace, and then unshare.
            for child in processes.children(pod.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            if pod.process.poll() is None:
                pod.process.kill()
            pod.process.wait()

    @staticmethod
    def _at(host, port):
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self, machine, attempt=1, environment=None, **changes):
        folder = self.folder / f"m{machine}.{attempt}"
        folder.mkdir()
        termination = folder / "termination"
        termination.touch()
        termination.chmod(0o666)
        config = {
            "jobUID": self.job_uid, "job": self.job, "machine": machine, "attempt": attempt,
            "machine0Attempt": 1, "epoch": attempt, "predecessorDead": True,
            "keyFile": "/mnt/key/gang", "coordinator": self._at(self.loopback, self.ports[0]),
            "listen": self._at(self.any, self.ports[machine]),
            "metricsListen": self._at(self.any, self.metrics_ports[machine]),
            "advertise": self.loopback, "runDir": "/mnt/run/agent", "checkpointPath": "",
            "logPath": "", "terminationPath": "/mnt/termination-log", "interface": "", **changes,
        }
        with open(folder / "stderr", "wb") as log, open(folder / "stdout", "wb") as output:
            process = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
                 str(SCRIPT), binary("lockstep-agent"), str(self.folder / "key"),
                 str(termination), str(self.image)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=log,
                env={"PATH": os.environ["PATH"], "LOCKSTEP_POD_IP": self.loopback,
                     **(environment or {}), "LOCKSTEP_CONFIG": json.dumps(config)})
        self.pods[machine] = Pod(process, folder)
        return self.pods[machine]

    def status(self, machine=0):
        """None where nobody answers."""
        address = self._at(self.loopback, self.ports[machine])
        identity = f"lockstep-v1:{self.job_uid}"
        with TlsConnection(address, identity, self.key.hex()) as connection:
            try:
                code, body = HttpClient(connection).request("GET", "/status")
            except (Closed, TimeoutError):
                return None
        assert code == 200, body
        return json.loads(body)

    def wait_phase(self, phase, machine=0):
        def reached():
            status = self.status(machine)
            return status and status["phase"] == phase

        wait_until(reached, lambda: f"phase {phase}\n{self.logs()}", PATIENCE)

    def end(self, machine):
        """(exit code, termination message) of an agent that leaves by itself."""
        pod = self.pods[machine]
        wait_until(lambda: pod.process.poll() is not None,
                   lambda: f"machine {machine} to leave\n{self.logs()}", PATIENCE)
        text = (pod.folder / "termination").read_text()
        return pod.process.returncode, json.loads(text) if text else None

    def logs(self):
        return "\n".join(f"--- {pod.folder.name}\n{pod.log}{pod.output}"
                         for pod in self.pods.values())
