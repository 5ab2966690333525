"""The commands of `lockstep` on a cluster where no operator runs: the tests write what it would have
written."""

import os
import subprocess

import yaml
from kubernetes.client import CustomObjectsApi
from kubernetes.client.exceptions import ApiException
from tls import binary

PATIENCE = 120
GROUP = ("lockstep.dev", "v1alpha1")
JOB = {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "gpt"},
       "spec": {"numMachines": 2, "processesPerMachine": 2, "image": "train:7",
                "command": ["python", "train.py"]}}
FINISHED = 0


def labels(machine, attempt):
    """Of the pod of a machine of gpt."""
    return {"lockstep.dev/job": "gpt", "lockstep.dev/machine": str(machine),
            "lockstep.dev/attempt": str(attempt)}


class Here:
    """The commands in one namespace, and the job as another client sees it."""

    def __init__(self, cluster, namespace, folder):
        self.cluster, self.namespace, self._folder = cluster, namespace, folder
        self.kubeconfig = cluster.kubeconfig
        self._jobs = CustomObjectsApi(cluster.client())

    def start(self, command, *arguments):
        return subprocess.Popen(
            [binary("lockstep"), command, "-n", self.namespace, *map(str, arguments)],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments, code=FINISHED):
        """(stdout, stderr); the exit code must be `code`."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, f"{arguments}: {process.returncode}\n{out}{err}"
        return out, err

    def file(self, name="gpt", **spec):
        path = self._folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**JOB, "metadata": {"name": name},
                                        "spec": {**JOB["spec"], **spec}}))
        return path

    def job(self, name="gpt"):
        """None: there is none."""
        try:
            return self._jobs.get_namespaced_custom_object(*GROUP, self.namespace, "trainingjobs",
                                                           name)
        except ApiException as error:
            assert error.status == 404, error
            return None

    def set_status(self, name="gpt", **status):
        whole = {"state": "Running", "epoch": 1, "replicas": 2,
                 "machines": {"desired": 2, "ready": 2}, **status}
        self._jobs.patch_namespaced_custom_object_status(
            *GROUP, self.namespace, "trainingjobs", name, {"status": whole})
