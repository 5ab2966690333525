"""A TrainingJob on a cluster of real nodes: what the API server says of it, and its processes.

    job = site.train("gpt")
    job.wait_trained()                     # far enough for something to be lost
    job.kill(rank=2)
    assert job.wait_state("Succeeded")["restarts"]["application"] == 1
    assert job.weights() == undisturbed
"""

import dataclasses
import json
import os
import re
import signal

import processes
from e2e_watch import first
from kubernetes.client import CoreV1Api, CustomObjectsApi
from kubernetes.client.exceptions import ApiException
from waiting import wait_until

PATIENCE = 240.0  # seconds; far beyond what anything takes
KIND = ("lockstep.dev", "v1alpha1")
PLURAL = "trainingjobs"
FINISHED = ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True)
class Rank:
    pid: int  # on this computer, whose kernel all nodes share
    rank: int
    pod: str  # its UID
    generation: str


def ranks(job):
    """Those alive of the job with this UID, on whatever node."""
    found = []
    for pid in processes.with_variable("LOCKSTEP_JOB_UID", job):
        mine, above = (processes.environment(each) for each in (pid, processes.parent(pid)))
        pod = processes.pod(pid)
        # Neither the agent, nor what a rank has started, nor one that has died meanwhile.
        if pod and "RANK" in mine and "RANK" not in above:
            found.append(Rank(pid, int(mine["RANK"]), pod, mine["LOCKSTEP_GENERATION"]))
    return found


class Job:
    def __init__(self, site, name):
        self.site, self.name = site, name

    # ---- what the API server says ----

    def read(self):
        """The whole object; None once it is gone."""
        try:
            return CustomObjectsApi(self.site.client).get_namespaced_custom_object(
                *KIND, self.site.namespace, PLURAL, self.name)
        except ApiException as error:
            if error.status != 404:
                raise
            return None

    def status(self):
        return (self.read() or {}).get("status", {})

    def wait(self, condition, what, patience=PATIENCE):
        """The first status of which condition(status) holds, as a watch tells it."""
        def holds(_, job):
            status = job.get("status", {})
            return status if "state" in status and condition(status) else None  # an operator has written it

        return first(holds, f"{self.name}: {what}", patience,
                     CustomObjectsApi(self.site.client).list_namespaced_custom_object,
                     *KIND, self.site.namespace, PLURAL,
                     field_selector=f"metadata.name={self.name}")

    def wait_state(self, state, patience=PATIENCE):
        """A job that came to another end than the one awaited fails the test at once."""
        status = self.wait(lambda s: s.get("state") in (state, *FINISHED), state, patience)
        assert status["state"] == state, f"{self.name} is {status['state']}, not {state}"
        return status

    def wait_gang(self, who, other_than, what):
        """Of an elastic job: runs of these members, as status names them, in another generation."""
        return self.wait(lambda s: members(s) == who and s["state"] == "Running"
                         and s["gangGeneration"] != other_than, what)

    def wait_gone(self):
        wait_until(lambda: self.read() is None and not self.pods(), f"{self.name} to be gone",
                   PATIENCE, 0.1)

    def pods(self):
        """Every pod there is, ended ones too."""
        return CoreV1Api(self.site.client).list_namespaced_pod(
            self.site.namespace, label_selector=f"lockstep.dev/job={self.name}").items

    def spares(self):
        return CoreV1Api(self.site.client).list_namespaced_pod(
            self.site.namespace, label_selector=f"lockstep.dev/job={self.name}.spare").items

    def live(self):
        """The pods that have not ended and need not go, by machine."""
        return {machine(pod): pod for pod in self.pods()
                if pod.status.phase in ("Pending", "Running")
                and pod.metadata.deletion_timestamp is None}

    def uids(self):
        return {index: pod.metadata.uid for index, pod in self.live().items()}

    def node(self, index):
        return self.live()[index].spec.node_name

    def uid(self):
        return self.read()["metadata"]["uid"]

    def log(self, index=0):
        """What the newest attempt of a machine has written."""
        def read():
            newest = max((pod for pod in self.pods() if machine(pod) == index), key=attempt)
            try:
                return [CoreV1Api(self.site.client).read_namespaced_pod_log(
                    newest.metadata.name, self.site.namespace, container="worker")]
            except ApiException as error:
                # A node whose power was just back is called Ready before its kubelet answers.
                if error.status < 500:
                    raise
                return None

        return wait_until(read, f"the log of machine {index}", PATIENCE, 0.5)[0]

    def weights(self):
        """SHA-256 of the final weights, as the built-in trainer's rank 0 says it."""
        said = re.findall(r"weights after step \d+: sha256 ([0-9a-f]{64})", self.log())
        return said[-1]  # it says them at each stop, too

    # ---- what a user changes ----

    def patch(self, **spec):
        self.site.kubectl("patch", "tj", self.name, "--type", "merge", "-p",
                          json.dumps({"spec": spec}))

    def delete(self):
        self.site.kubectl("delete", "tj", self.name, "--wait=false")

    # ---- its processes and its checkpoints ----

    def ranks(self):
        return ranks(self.uid())

    def kill(self, rank, number=signal.SIGKILL):
        """The rank that got the signal."""
        victim = wait_until(lambda: next((r for r in self.ranks() if r.rank == rank), None),
                            f"rank {rank} of {self.name}", PATIENCE, 0.05)
        os.kill(victim.pid, number)
        return victim

    def stop_rank(self, status):
        """Rank 0 of the generation that runs: no step is made, and no checkpoint, until it gets
        SIGCONT. Its process id."""
        [pid] = [each.pid for each in self.ranks()
                 if each.rank == 0 and each.generation == status["gangGeneration"]]
        os.kill(pid, signal.SIGSTOP)
        return pid

    def checkpoints(self):
        """Complete ones on the volume, as <generation>/<step>."""
        folder = self.site.folder / self.name / "checkpoints"
        return {str(each.relative_to(folder)) for each in folder.glob("*/[0-9][0-9][0-9][0-9]*.*")}

    def wait_trained(self, more_than=frozenset()):
        """All ranks run, and a checkpoint is there that is not in `more_than`."""
        self.wait_state("Running")
        return wait_until(lambda: self.checkpoints() - more_than, f"a checkpoint of {self.name}",
                          PATIENCE, 0.05)


def members(status):
    """Of an elastic job: who takes part."""
    return status.get("elastic", {}).get("members")


def machine(pod):
    return int(pod.metadata.labels["lockstep.dev/machine"])


def attempt(pod):
    return int(pod.metadata.labels["lockstep.dev/attempt"])
