"""One namespace of the cluster, its jobs, and a folder of this computer as their shared volume."""

import yaml
from e2e_install import BUSYBOX
from e2e_job import Job
from e2e_report import report
from kubernetes.client import CoreV1Api

# A model that makes a step in milliseconds. The micro-batch is named, for the same bits at any
# world want the same one.
TRAINER = {"modelShape": {"layers": 2, "heads": 2, "width": 32, "vocabulary": 256},
           "data": ["/usr/share/common-licenses/GPL-3"], "steps": 2500, "globalBatchSize": 8,
           "microBatchSize": 1, "sequenceLength": 32, "learningRate": 1e-3,
           "checkpointEvery": 50}
SIZE, MODES = {"storage": "1Gi"}, ["ReadWriteMany"]  # of every volume


class Site:
    def __init__(self, stack, namespace, folder):
        self.stack, self.namespace, self.folder = stack, namespace, folder
        self.client = stack.client()
        self._volumes = []

    def kubectl(self, *arguments, **options):
        return self.stack.kubectl("-n", self.namespace, *arguments, **options)

    def train(self, name="gpt", trainer=None, **spec):
        """A job of the built-in trainer, 2 x 2 unless `spec` says otherwise, with checkpoints."""
        self.volume(name)
        checkpoint = {"claim": name, "path": "/checkpoints", **spec.pop("checkpoint", {})}
        return self.apply(name, trainer={**TRAINER, **(trainer or {})}, checkpoint=checkpoint,
                          **spec)

    def program(self, name, command, **spec):
        """A job of busybox that runs `command` in each process."""
        return self.apply(name, command=command, **{"image": BUSYBOX, **spec})

    def apply(self, name, labels=None, annotations=None, **spec):
        self.kubectl("apply", "-f", "-", input=yaml.safe_dump({
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
            "spec": {"numMachines": 2, "processesPerMachine": 2, "topology": {"bind": "None"},
                     **spec}}))
        return Job(self, name)

    def volume(self, name, node=None):
        """A claim of this name, whose files stand in `folder`/`name`: ReadWriteMany and seen by every
        node, or ReadWriteOnce and to be had on one `node` alone.
        """
        folder = self.folder / name
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        volume = f"{self.namespace}-{name}"  # of no namespace
        reach = {"accessModes": MODES}
        if node is not None:
            here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            reach = {"accessModes": ["ReadWriteOnce"], "nodeAffinity": {"required": {
                "nodeSelectorTerms": [{"matchExpressions": [here]}]}}}
        CoreV1Api(self.client).create_persistent_volume({
            "metadata": {"name": volume},
            "spec": {"capacity": SIZE, "storageClassName": "",
                     "persistentVolumeReclaimPolicy": "Retain",
                     "hostPath": {"path": str(folder)},
                     "claimRef": {"namespace": self.namespace, "name": name},
                     **reach}})
        self._volumes.append(volume)
        self.claim(name, volumeName=volume, accessModes=reach["accessModes"])

    def claim(self, name, **spec):
        CoreV1Api(self.client).create_namespaced_persistent_volume_claim(self.namespace, {
            "metadata": {"name": name},
            "spec": {"accessModes": MODES, "storageClassName": "",
                     "resources": {"requests": SIZE}, **spec}})

    def files(self, name, contents):
        """A ConfigMap."""
        CoreV1Api(self.client).create_namespaced_config_map(
            self.namespace, {"metadata": {"name": name}, "data": contents})

    def report(self):
        return report(self.stack, self.namespace)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Jobs first, so that the next test has the nodes to itself."""
        self.kubectl("delete", "tj", "--all", "--cascade=foreground", "--timeout=120s")
        for volume in self._volumes:
            CoreV1Api(self.client).delete_persistent_volume(volume)
