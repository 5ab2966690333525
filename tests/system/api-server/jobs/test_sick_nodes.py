"""failurePolicy.nodeHealth on a real API server, with the real operator and real agents: machines leave
nodes that are cordoned, tainted, have a bad condition or are marked, and stay where no other node is."""

import contextlib
import json

import pytest
from agent_kubelet import AgentKubelet
from cluster import cluster_in
from jobs import Jobs, operator
from waiting import holds_for, wait_until

MODEL = {"layers": 2, "heads": 2, "width": 32, "vocabulary": 256}
TRAINER = {"modelShape": MODEL, "data": ["/usr/share/common-licenses/GPL-3"], "sequenceLength": 32,
           "learningRate": 1e-3, "globalBatchSize": 4, "microBatchSize": 1, "decaySteps": 10_000_000,
           "steps": 10_000_000}


@pytest.fixture(scope="module")
def nodes_cluster(tmp_path_factory):
    """A cluster of its own, because the operator reads nodes only if it watches all namespaces."""
    with cluster_in(tmp_path_factory.mktemp("cluster")) as made:
        made.install_crd()
        yield made


@pytest.fixture
def jobs(nodes_cluster, tmp_path):
    with contextlib.ExitStack() as stack:
        namespace = stack.enter_context(nodes_cluster.namespace("nodes"))
        kubelet = stack.enter_context(AgentKubelet(nodes_cluster, namespace, tmp_path))
        made = Jobs(nodes_cluster, namespace, kubelet, tmp_path)
        stack.enter_context(operator(nodes_cluster.kubeconfig, tmp_path,
                                     "--system-namespace", "kube-system"))
        yield made
        made.kubectl("delete", "tj", "--all")
        wait_until(lambda: not made.kubectl("get", "pods", "-o", "name"),
                   lambda: "pods to go:\n" + made.kubectl("get", "pods", "-o", "yaml"), 120, 0.1)


def train(jobs, folder, every, **policy):
    """A job that commits each `every` steps, and whose budget of replacements is empty."""
    jobs.apply("gpt", None, processesPerMachine=1, framework="Torch",
               trainer={**TRAINER, "checkpointEvery": every},
               failurePolicy={"maxMachineReplacements": 0, **policy},
               checkpoint={"path": str(folder / "checkpoints")})
    return jobs.wait_state("gpt", "Running")


def node_of(jobs, machine):
    [name] = [each["node"] for each in jobs.status("gpt")["machineStatuses"] if each["index"] == machine]
    return name


def condition(status):
    return next((each for each in status.get("conditions", []) if each["type"] == "OnSickNode"), {})


def events(jobs, reason):
    found = json.loads(jobs.kubectl("get", "events", "-o", "json"))["items"]
    return [each for each in found if each["reason"] == reason]


def mend(jobs, node, how):
    if how == "cordon":
        jobs.kubectl("uncordon", node)
    if how == "taint":
        jobs.kubectl("taint", "node", node, "nvidia.com/gpu-error-")
    if how == "annotation":
        jobs.kubectl("annotate", "node", node, "lockstep.dev/suspect-")


def spoil(jobs, node, how):
    if how == "cordon":
        jobs.kubectl("cordon", node)
    if how == "taint":
        jobs.kubectl("taint", "node", node, "nvidia.com/gpu-error=fatal:NoSchedule")
    if how == "annotation":
        jobs.kubectl("annotate", "node", node, "lockstep.dev/suspect=ECC errors")
    if how == "condition":
        bad = {"type": "KernelDeadlock", "status": "True", "reason": "Stuck", "message": "a task hangs",
               "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        jobs.kubectl("patch", "node", node, "--subresource=status",
                     "-p", json.dumps({"status": {"conditions": [bad]}}))


@pytest.mark.parametrize("machine,how,words", [
    (1, "cordon", "is cordoned"), (1, "taint", "has taint nvidia.com/gpu-error"),
    (1, "condition", "has condition KernelDeadlock=True"),
    (0, "annotation", "is marked suspect: ECC errors")])
def test_machine_leaves_a_sick_node_after_a_checkpoint_uncharged(jobs, tmp_path, machine, how, words):
    train(jobs, tmp_path, every=20)
    node = node_of(jobs, machine)
    spoil(jobs, node, how)
    try:
        status = jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running", "the move")
        assert node_of(jobs, machine) != node and node_of(jobs, 1 - machine) != node
        status = jobs.wait("gpt", lambda s: s["restarts"]["total"] == 1, "the restart to be counted")
        assert status["restarts"]["infrastructure"] == 0 and status["restarts"]["application"] == 0
        jobs.wait("gpt", lambda s: any(f"machine {machine} moved: node {node} {words}" in each.get("reason", "")
                                       for each in s.get("history", [])), "the reason in history")
        [moves] = events(jobs, "MachineMoves")
        assert f"machine {machine} leaves node {node}, which {words}" in moves["message"]
        [replaced] = events(jobs, "MachineReplaced")
        assert f"node {node} {words}" in replaced["message"] and replaced["type"] == "Normal"
        jobs.wait("gpt", lambda s: condition(s).get("status") == "False", "the condition to end")
        leader = "gpt-0" if machine else "gpt-0-r2"
        wait_until(lambda: "resuming at step" in jobs.kubelet.log(leader),
                   lambda: f"a resume:\n{jobs.kubelet.log(leader)}", 60)
        assert not jobs.spares("gpt"), "the spare that showed the node has given it up"
    finally:
        mend(jobs, node, how)


def test_job_without_a_checkpoint_waits_and_now_moves_it_at_once(jobs, tmp_path):
    train(jobs, tmp_path, every=1_000_000)
    node = node_of(jobs, 1)
    jobs.kubectl("cordon", node)
    try:
        status = jobs.wait("gpt", lambda s: condition(s).get("reason") == "AwaitsCheckpoint",
                           "the wait for a checkpoint")
        assert "none was committed yet" in condition(status)["message"]
        assert f"machine 1 on node {node}, which is cordoned" in status["reason"]
        holds_for(3, lambda: jobs.status("gpt")["epoch"] == 1, "the same machines")
        jobs.kubectl("patch", "tj", "gpt", "--type=merge",
                     "-p", json.dumps({"spec": {"failurePolicy": {"nodeHealth": "Now"}}}))
        jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running", "the move")
        assert node_of(jobs, 1) != node
    finally:
        jobs.kubectl("uncordon", node)


def test_machine_stays_where_no_other_node_is_free_and_one_event_says_so(jobs, tmp_path):
    jobs.kubelet.hold({-1})  # spares find no node
    train(jobs, tmp_path, every=10, nodeHealth="Now")
    before = jobs.pods("gpt")
    node = node_of(jobs, 1)
    jobs.kubectl("cordon", node)
    try:
        status = jobs.wait("gpt", lambda s: condition(s).get("reason") == "NoHealthyNode", "the wait")
        assert "0/4 nodes are available" in condition(status)["message"]
        holds_for(5, lambda: jobs.pods("gpt") == before, "the same pods")
        assert len(events(jobs, "MachineMoves")) == 0
        [event] = events(jobs, "NoHealthyNode")
        assert "no other node is free" in event["message"]
        jobs.kubelet.hold(set())
        jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running", "the move")
    finally:
        jobs.kubectl("uncordon", node)


def test_ignored_sickness_moves_nothing(jobs, tmp_path):
    train(jobs, tmp_path, every=10, nodeHealth="Ignore")
    before = jobs.pods("gpt")
    node = node_of(jobs, 1)
    jobs.kubectl("cordon", node)
    try:
        holds_for(5, lambda: jobs.pods("gpt") == before, "the same pods")
        assert condition(jobs.status("gpt")) == {}
    finally:
        jobs.kubectl("uncordon", node)


def test_lost_machine_makes_its_node_suspect_in_status_and_in_an_event_of_the_node(jobs, tmp_path):
    train(jobs, tmp_path, every=10, maxMachineReplacements=3)
    node = node_of(jobs, 1)
    jobs.kubelet.process("gpt-1").kill()
    status = jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running", "the replacement")
    [suspect] = status["suspectNodes"]
    assert (suspect["node"], suspect["evidence"], suspect["count"]) == (node, "Lost", 1)
    assert node in suspect["message"] and suspect["last"]

    def told():
        found = json.loads(jobs.kubectl("get", "events", "-n", "default", "-o", "json"))["items"]
        return [each for each in found if each["involvedObject"]["kind"] == "Node"
                and each["involvedObject"]["name"] == node and each["reason"] == "LockstepLost"]

    [event] = wait_until(told, "an event of the node", 60)
    assert f"TrainingJob {jobs.namespace}/gpt" in event["message"]
