"""Random faults of every kind, two at a time, from a seed: the weights stay the same to the bit.

LOCKSTEP_CHAOS_SECONDS (120) says for how long, LOCKSTEP_CHAOS_SEED (1) which faults.
"""

import contextlib
import itertools
import os
import random
import signal
import time

import pytest
from e2e_job import FINISHED, PATIENCE, machine, members
from waiting import wait_until

SECONDS = float(os.environ.get("LOCKSTEP_CHAOS_SECONDS", "120"))
SEED = int(os.environ.get("LOCKSTEP_CHAOS_SEED", "1"))
LONGEST = 20.0  # seconds that one fault lasts, of those that last
BUDGETS = {"maxRestarts": 1000, "maxMachineReplacements": 1000}
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
CPU, QUOTA = "200m", "1200m"  # of one process; of the queue, for 2 machines x 2 and a spare
OTHERS = "800m"  # of a job beside them: there is room where half a gang has given its quota back


class Chaos:
    """Each method breaks something for as long as its context lasts."""

    def __init__(self, site, job, dice):
        self._stack, self._site, self._job, self._dice = site.stack, site, job, dice
        self._pushes = itertools.count(1)

    @contextlib.contextmanager
    def killed_rank(self):
        with contextlib.suppress(IndexError, ProcessLookupError):  # none runs just now
            victim = self._dice.choice(sorted(self._job.ranks(), key=lambda each: each.rank))
            os.kill(victim.pid, signal.SIGKILL)
        yield

    @contextlib.contextmanager
    def deleted_pod(self):
        with contextlib.suppress(IndexError):
            pod = self._dice.choice(sorted(p.metadata.name for p in self._job.live().values()))
            self._site.kubectl("delete", "pod", pod, "--wait=false", "--ignore-not-found")
        yield

    @contextlib.contextmanager
    def suspended_job(self):
        self._job.patch(suspend=True)
        yield
        self._job.patch(suspend=False)

    @contextlib.contextmanager
    def smaller_gang(self):
        self._job.patch(numMachines=1)
        yield
        self._job.patch(numMachines=2)

    @contextlib.contextmanager
    def killed_leader(self):
        if leader := self._stack.leader():
            self._stack.kill_operator(leader)
        yield

    @contextlib.contextmanager
    def restarted_api_server(self):
        self._stack.nodes.restart("kube-apiserver")
        yield

    @contextlib.contextmanager
    def pushed_out(self):
        """By a job of higher priority that wants most of the queue, and goes once it has got
        that. (It may never run: the node of its only machine may be the one without power.)"""
        other = self._site.program(
            f"{self._job.name}-{next(self._pushes)}", ["sleep", "3600"],
            labels={QUEUE: self._site.namespace, PRIORITY: "high"}, numMachines=1,
            processesPerMachine=1, resourcesPerProcess={"cpu": OTHERS})
        yield
        other.wait(lambda s: any(each["type"] == "Admitted" and each["status"] == "True"
                                 for each in s.get("conditions", [])), "its turn")
        other.delete()

    @contextlib.contextmanager
    def lost_machine(self):
        """Machine 1 of an elastic gang finds no other node: machine 0 runs on without it, and takes
        it in again. (Where machine 0's node is lost, nobody is left who could tell that its
        ranks are dead: its successor waits until the pod is gone.)"""
        whole = self._job.wait_state("Running")["gangGeneration"]
        with self._stack.powerless(self._job.node(1)):
            small = self._job.wait_gang("0", whole, "the gang of one")
            rank = self._job.stop_rank(small)  # it ends no sooner than it has grown
            yield
        self._job.wait(lambda s: members(s) == "0-1", "growth")
        os.kill(rank, signal.SIGCONT)
        self._job.wait_gang("0-1", small["gangGeneration"], "the gang of two again")

    def no_dns(self):
        return self._stack.without_dns()

    def powerless_node(self):
        return self._stack.powerless(self._node())

    def unreachable_node(self):
        return self._stack.unreachable(self._node())

    def _node(self):
        """One of the job's, if it has any just now."""
        placed = {pod.spec.node_name for pod in self._job.live().values()} - {None}
        return self._dice.choice(sorted(placed or self._stack.nodes.names))


# What happens to one and the same thing happens one after the other.
FAULTS = {
    Chaos.killed_rank: "rank", Chaos.deleted_pod: "pod", Chaos.suspended_job: "spec",
    Chaos.smaller_gang: "spec", Chaos.killed_leader: "leader",
    Chaos.restarted_api_server: "server", Chaos.no_dns: "dns", Chaos.powerless_node: "node",
    Chaos.unreachable_node: "node",
}


def rage(chaos, job, dice, until, faults):
    """Faults, of which two last at any time, until the job is done or the time is up."""
    with contextlib.ExitStack() as mend:
        open_faults = {}  # by what they break, oldest first
        while time.monotonic() < until and job.status().get("state") not in FINISHED:
            fault = dice.choice([f for f in faults if faults[f] not in open_faults])
            print(f"{time.strftime('%X')} {fault.__name__}", flush=True)
            lasting = contextlib.ExitStack()
            mend.push(lasting)
            lasting.enter_context(fault(chaos))
            open_faults[faults[fault]] = lasting
            pause = time.monotonic() + dice.uniform(0, LONGEST / 2)
            wait_until(lambda end=pause: time.monotonic() > end, "a while", PATIENCE, 0.1)
            if len(open_faults) > 1:
                open_faults.pop(next(iter(open_faults))).close()


# A spec, and the faults that such a job begins with.
PLAIN = ({}, [])
# All that saves time: checkpoints in memory beside those on disk, a spare, machines that are
# measured before ranks run on them.
SAVING = ({"checkpoint": {"memory": {"size": "64Mi"}}, "spareMachines": 1,
           "preflight": {"enabled": True}}, [])
# Of the three nodes it may have two, so that a machine whose node is gone finds no other: the gang
# goes on smaller, with the same sums to the bit, and gives quota back.
ELSEWHERE = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-2"]}
ELASTIC = ({"elastic": {"shrinkAfter": "1s", "growAfter": "0s"},
            "failurePolicy": {**BUDGETS, "machineLostAfter": "3s"},
            "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
            "placement": {"onePerNode": "Required"},
            "template": {"spec": {"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [ELSEWHERE]}]}}}}}},
           [Chaos.lost_machine])


def suffer(site, undisturbed, kinds, faults=FAULTS, always=(), **spec):
    """Jobs one after the other until the time is up, of each kind in turn. Each begins with the
    faults of `always`, and with those of its kind."""
    print(f"LOCKSTEP_CHAOS_SEED={SEED}")
    dice, until, count = random.Random(SEED), time.monotonic() + SECONDS, 0
    compared = 0
    while time.monotonic() < until or not compared:
        count += 1
        kind, begins_with = kinds[compared % len(kinds)]
        job = site.train(f"gpt{count}", **{"failurePolicy": BUDGETS, **kind, **spec})
        job.wait_state("Running")
        chaos = Chaos(site, job, dice)
        for fault in [*always, *begins_with]:
            print(f"{time.strftime('%X')} {fault.__name__}", flush=True)
            with fault(chaos):
                pass
        rage(chaos, job, dice, until, faults)
        site.stack.wait_whole()
        job.wait_state("Succeeded", 3 * PATIENCE)
        if not any(machine(pod) == 0 for pod in job.pods()):
            print("machine 0's pod was deleted as it ended, and its log with it")
            continue
        assert job.weights() == undisturbed
        compared += 1


def test_job_succeeds_with_same_weights_despite_random_faults(site, undisturbed):
    suffer(site, undisturbed, [SAVING, PLAIN])


@pytest.mark.slow  # Kueue's manager is minutes of building
def test_job_preempted_in_queue_succeeds_with_same_weights_despite_random_faults(
        queues, site):
    longer = {"steps": 5000}  # so that there is time for a gang to shrink by chance, too
    alone = site.train("alone", longer)
    alone.wait_state("Succeeded", 3 * PATIENCE)
    queues.make("WorkloadPriorityClass", "high", value=1000)
    queues.make_queue(site.namespace, site.namespace, cpu=QUOTA)
    suffer(site, alone.weights(), [ELASTIC, SAVING], {**FAULTS, Chaos.pushed_out: "queue"},
           always=[Chaos.pushed_out], trainer=longer, labels={QUEUE: site.namespace},
           resourcesPerProcess={"cpu": CPU})
