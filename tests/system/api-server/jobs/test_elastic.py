"""spec.elastic on a real API server, with the real operator and real agents: a machine's next pod finds no
node, and then does."""

import os
import re
import signal

import pytest
from jobs import operator
from processes import children, environment
from run import Run
from trainer_jobs import job as local_job
from trainer_jobs import weights
from waiting import wait_until

STEPS = 1000
MODEL = {"layers": 2, "heads": 2, "width": 32, "vocabulary": 256}
# Of 3 and of 2 machines sums differ in their last bits, so that a step at a wrong size shows.
TRAINER = {"modelShape": MODEL, "data": ["/usr/share/common-licenses/GPL-3"], "sequenceLength": 32,
           "learningRate": 1e-3, "globalBatchSize": 12, "microBatchSize": 1, "decaySteps": STEPS,
           "checkpointEvery": 5}


@pytest.fixture
def train(jobs, tmp_path):
    """A job of three machines that may leave some out."""
    def apply(**elastic):
        jobs.apply("gpt", None, numMachines=3, processesPerMachine=1, framework="Torch",
                   trainer={**TRAINER, "steps": STEPS}, elastic={"growAfter": "0s", **elastic},
                   failurePolicy={"maxMachineReplacements": 1},
                   checkpoint={"path": str(tmp_path / "checkpoints")})
    return apply


def members(status):
    return status.get("elastic", {}).get("members")


def shrunk(status):
    return [(each["status"], each["message"]) for each in status["conditions"]
            if each["type"] == "Shrunk"]


def wait_commit(folder, count):
    found = folder / "checkpoints"
    wait_until(lambda: len(list(found.glob("checkpoints/*/0*.*"))) >= count, f"{count} checkpoints",
               90)


def by_hand(folder, *sizes):
    """One run after the other, of (machines, steps until then)."""
    folder.mkdir()
    for machines, until in sizes:
        code, _, output = Run(folder, local_job(folder, machines=machines, processes=1, steps=until,
                                                **TRAINER)).finish()
        assert code == 0, output
    return weights(output)


def test_gang_shrinks_without_a_node_grows_at_a_commit_and_matches_local_weights(
        jobs, train, tmp_path):
    train(shrinkAfter="5s")  # in which all pods find their nodes at first
    status = jobs.wait_state("gpt", "Running")
    assert members(status) == "0-2" and shrunk(status) == []
    whole = status["gangGeneration"]
    wait_commit(tmp_path, 1)
    before = jobs.pods("gpt")
    jobs.kubelet.hold({1})
    jobs.kubelet.process("gpt-1").kill()
    # Who takes part is decided, and stands here, before the gang knows it.
    status = jobs.wait("gpt", lambda s: members(s) == "0,2" and s["state"] == "Running"
                       and s["gangGeneration"] != whole, "the gang of two")
    [rank] = [pid for pid in children(jobs.kubelet.process("gpt-0").pid)
              if "RANK" in environment(pid)]
    os.kill(rank, signal.SIGSTOP)  # no step until the machine is back
    assert shrunk(status) == [
        ("True", "2 of 3 machines take part (0,2): machine 1 found no node")]
    assert status["replicas"] == 3 and "2 of 3 machines take part" in status["reason"]
    small = status["gangGeneration"]
    jobs.kubelet.hold(set())
    status = jobs.wait("gpt", lambda s: members(s) == "0-2", "growth")
    assert status["gangGeneration"] == small
    jobs.wait("gpt", lambda s: shrunk(s) == [
        ("True", "2 of 3 machines take part (0,2): machine 1 can take part again once the program "
         "commits a checkpoint")], "the word that growth waits for a commit")
    os.kill(rank, signal.SIGCONT)
    status = jobs.wait("gpt", lambda s: s["state"] == "Running" and s["gangGeneration"] != small,
                       "the gang of three again")
    assert shrunk(status)[0][0] == "False"
    after = jobs.pods("gpt")
    assert {name: after[name] for name in ("gpt-0", "gpt-2")} == {
        name: before[name] for name in ("gpt-0", "gpt-2")}
    status = jobs.wait_state("gpt", "Succeeded")
    assert status["restarts"]["infrastructure"] == 1 and status["restarts"]["application"] == 0
    log = jobs.kubelet.log("gpt-0")
    small, grown = [int(step) for step in re.findall(r"resuming at step (\d+)", log)]
    assert 0 < small < grown
    assert weights(log) == by_hand(tmp_path / "hand", (3, small), (2, grown), (3, STEPS))
    events = jobs.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}").split()
    assert "GangShrunk" in events and "GangGrown" in events


def test_drained_machine_without_another_node_leaves_the_gang_at_once_uncharged(
        jobs, train, tmp_path):
    train(shrinkAfter="1h")
    jobs.wait_state("gpt", "Running")
    wait_commit(tmp_path, 1)
    jobs.kubelet.hold({2})
    jobs.kubectl("delete", "pod", "gpt-2", "--wait=false")
    status = jobs.wait("gpt", lambda s: members(s) == "0-1" and s["state"] == "Running",
                       "the gang of two")
    assert status["restarts"]["infrastructure"] == 0
    jobs.wait_state("gpt", "Succeeded")


def test_new_operator_keeps_membership_of_small_gang(jobs, train, tmp_path):
    jobs.kubelet.hold({1})
    train(shrinkAfter="5s")
    jobs.wait("gpt", lambda s: members(s) == "0,2" and s["state"] == "Running", "the gang of two")
    jobs.operator.kill()
    jobs.operator.wait()
    jobs.kubectl("delete", "lease", "lockstep-operator")  # otherwise it lasts a minute
    with operator(jobs.cluster.kubeconfig, tmp_path, "--namespace", jobs.namespace,
                  "--system-namespace", jobs.namespace):
        jobs.wait_state("gpt", "Succeeded")
    assert members(jobs.status("gpt")) == "0,2"
    assert weights(jobs.kubelet.log("gpt-0")) == by_hand(tmp_path / "hand", (2, STEPS))
