"""The story that tools/demo queue tells, on a Kubernetes of three nodes with a real Kueue: two jobs
want one GPU's worth of quota. The first trains, one of higher priority pushes it out, and it goes
on later from the very step at which it stopped; both are the same training, and end with the same
weights.

The nodes have no GPUs: example.com/gpu is a resource that stands in the status of one of them and
nothing more, and what is trained is trained on CPUs.

    queue_demo.py [--keep]
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import time

import stage
from stage import FOLDER, ROOT, SHARED, output, run, say, status, submit, wait

sys.path.insert(0, str(ROOT / "tools/lib/cluster"))

from cluster import Cluster
from kueue import Kueue

GPU = "example.com/gpu"
QUEUE = f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: team-a}}
spec:
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [cpu, memory, {GPU}]
    flavors:
    - name: any
      resources:
      - {{name: cpu, nominalQuota: 100}}
      - {{name: memory, nominalQuota: 1Ti}}
      - {{name: {GPU}, nominalQuota: 1}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: team-a, namespace: default}}
spec: {{clusterQueue: team-a}}
"""
PATCH = ('[{"op": "add", "path": "/status/capacity/' + GPU.replace("/", "~1") + '", "value": "1"}]')
# Of examples/queue.yaml. No checkpoint is made on the way: the first job goes on from the one that
# it makes as it stops.
TRAINING = {"numMachines": 1, "resourcesPerProcess": None, "resourcesPerMachine": {GPU: 1},
            "trainer": {"steps": 200, "checkpointEvery": 0}}
CHECKPOINT = {"claim": "checkpoints", "path": "/checkpoints"}
ENOUGH = 60  # steps until the second job comes


def job(name, **spec):
    return {"metadata": {"name": name, "labels": {"kueue.x-k8s.io/priority-class": name}},
            "spec": {**TRAINING, **spec}}


def bring_kueue():
    say("a real Kueue: its CRDs, and its manager with its webhooks beside the API server")
    queues = Kueue(Cluster(FOLDER), FOLDER / "kueue")
    queues.install()
    queues.start()
    queues.make("ResourceFlavor", "any", spec={})  # its webhooks answer from here on
    queues.make("WorkloadPriorityClass", "low", value=100)
    queues.make("WorkloadPriorityClass", "high", value=1000)
    run("kubectl get crds -o name | grep kueue; kubectl get workloadpriorityclasses")
    say(f"one node is given a {GPU}, in name only; a queue whose jobs may have one of them")
    run(f"kubectl patch node node-0 --subresource=status --type=json -p '{PATCH}'")
    print(QUEUE)
    run("kubectl apply -f -", input=QUEUE, text=True)


class Times:
    """When what came to pass, in seconds from the first of them."""

    def __init__(self):
        self._told = []

    def tell(self, what):
        self._told.append((time.monotonic(), what))

    def show(self):
        for when, what in self._told:
            print(f"    {when - self._told[0][0]:6.1f} s   {what}")


def logs(name):
    """The command that shows what a job's rank 0 says."""
    return ["kubectl", "logs", "-l", f"lockstep.dev/job={name},lockstep.dev/machine=0",
            "-c", "worker", "--tail=-1"]


class Log:
    """What a job's pod says, which may be gone when it is read."""

    def __init__(self, name):
        self._file = tempfile.NamedTemporaryFile()
        self._follow = subprocess.Popen([*logs(name), "--follow"], env=stage.environment(),
                                        stdout=self._file)

    def text(self):
        return pathlib.Path(self._file.name).read_text()

    def whole(self):
        """Once the pod has ended."""
        self._follow.wait(stage.PATIENCE)
        return self.text()


def wait_state(name, state):
    wait(name, lambda: status(name).get("state") == state, f"{name} to be {state}")


def said(log, pattern):
    found = re.findall(pattern, log)
    return found[-1] if found else "?"


def tell():
    """Whether all was as it should be."""
    say("the first job, of low priority, with a volume for its checkpoints")
    stage.make_volume()
    submit("queue.yaml", job("low", checkpoint=CHECKPOINT))
    times = Times()
    with stage.watched():
        wait_state("low", "Running")
        log = Log("low")
        wait("low", lambda: f"step {ENOUGH}/" in log.text(), "the first job to train")
        say("the second job, of high priority: the same training, for as much of the quota")
        submit("queue.yaml", job("high"))
        times.tell("high is there; low trains")
        wait_state("low", "Queued")
        times.tell("low has stopped, saved and given its quota back")
        before = log.whole()
        run("kubectl get workloads")
        run("kubectl get tj low -o jsonpath='{.status.reason}{\"\\n\"}'")
        run(f"cd {SHARED} && ls -d checkpoints/*/*")
        wait_state("high", "Running")
        times.tell("high runs")
        wait_state("high", "Succeeded")
        times.tell("high has trained to its end")
        wait_state("low", "Running")
        times.tell("low runs again")
        wait_state("low", "Succeeded")
        times.tell("low has trained to its end")
    return show(times, before)


def show(times, before):
    after, alone = (output(*logs(name)) for name in ("low", "high"))
    stopped = said(before, r"stopped on request after step (\d+)")
    resumed = said(after, r"resuming at step (\d+)")
    weights = [said(log, r"weights after step \d+: sha256 ([0-9a-f]{64})")
               for log in (after, alone)]
    say("what happened, as kubectl saw it")
    times.show()
    print(f"\n  low stopped after step {stopped}, and went on after step {resumed}"
          + (": no step was lost, none done twice" if stopped == resumed else ": THIS IS A BUG"))
    print("  SHA-256 of the final weights")
    print(f"    low, pushed out on the way   {weights[0]}")
    print(f"    high, left alone             {weights[1]}")
    same = weights[0] == weights[1]
    print(f"  {'the same, to the bit' if same else 'DIFFERENT: this is a bug'}")
    return stopped == resumed != "?" and same and weights[0] != "?"


def main():
    with stage.installed_cluster("--set kueue.enabled=true"):
        bring_kueue()
        as_it_should = tell()
    return 0 if as_it_should else 1


if __name__ == "__main__":
    sys.exit(main())
