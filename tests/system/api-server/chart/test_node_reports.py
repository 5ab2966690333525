"""nodeReports on a real API server, with the rights that the chart gives: what a gang saw of a node becomes a condition of the node,
beside those of others, and is taken back after a time without new evidence."""

import contextlib
import json
import re

import chart
import pytest
import yaml
from agent_kubelet import AgentKubelet
from cluster import cluster_in
from jobs import Jobs, operator
from waiting import wait_until

TRAINER = {"modelShape": {"layers": 2, "heads": 2, "width": 32, "vocabulary": 256},
           "data": ["/usr/share/common-licenses/GPL-3"], "sequenceLength": 32, "learningRate": 1e-3,
           "globalBatchSize": 4, "microBatchSize": 1, "decaySteps": 10_000_000, "steps": 10_000_000}


@pytest.fixture(scope="module")
def nodes_cluster(tmp_path_factory):
    """A cluster of its own, because the operator reads nodes only if it watches all namespaces."""
    with cluster_in(tmp_path_factory.mktemp("cluster")) as made:
        made.install_crd()
        yield made


@contextlib.contextmanager
def account(cluster, folder, values):
    """The kubeconfig of the operator's service account, with the chart's roles for these values."""
    with cluster.namespace("system") as system:
        text = chart.render(values, system)
        manifest = yaml.safe_dump_all(chart.of_kind(
            text, "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"))
        cluster.kubectl("apply", "-f", "-", input=manifest)
        token = cluster.kubectl("-n", system, "create", "token", "lockstep-operator").strip()
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        for user in config["users"]:
            user["user"] = {"token": token}
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        yield file, system
        cluster.kubectl("delete", "-f", "-", input=manifest)
        cluster.kubectl("-n", "kube-system", "delete", "lease", "lockstep-all-jobs", "--ignore-not-found")


@contextlib.contextmanager
def job_under(cluster, folder, **reports):
    """A job of two machines under an operator with these nodeReports, and the node of machine 1."""
    values = {"nodeReports": {"enabled": True, **reports}} if reports else {}
    options = [f"--node-reports={reports['staySeconds']}"] if reports else []
    with contextlib.ExitStack() as stack:
        kubeconfig, system = stack.enter_context(account(cluster, folder, values))
        namespace = stack.enter_context(cluster.namespace("reports"))
        kubelet = stack.enter_context(AgentKubelet(cluster, namespace, folder))
        jobs = Jobs(cluster, namespace, kubelet, folder)
        stack.enter_context(operator(kubeconfig, folder, "--system-namespace", system, *options))
        jobs.apply("gpt", None, processesPerMachine=1, framework="Torch",
                   trainer={**TRAINER, "checkpointEvery": 10},
                   checkpoint={"path": str(folder / "checkpoints")})
        status = jobs.wait_state("gpt", "Running")
        [node] = [each["node"] for each in status["machineStatuses"] if each["index"] == 1]
        yield jobs, node
        jobs.kubectl("delete", "tj", "--all")
        wait_until(lambda: not jobs.kubectl("get", "pods", "-o", "name"), "pods to go", 120, 0.1)


def lose(jobs, pod):
    jobs.kubelet.process(pod).kill()


def the(jobs, node):
    return json.loads(jobs.kubectl("get", "node", node, "-o", "json", "--show-managed-fields"))


def suspicion(jobs, node):
    conditions = the(jobs, node)["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "LockstepSuspect"), None)


def documented_patch():
    text = (chart.ROOT / "docs/operate/operations.md").read_text()
    return re.search(r"--subresource=status.*?-p '([^']*)'", text, re.S).group(1)


def test_lost_machine_becomes_a_condition_of_its_node_which_goes_again(nodes_cluster, tmp_path):
    with job_under(nodes_cluster, tmp_path, staySeconds=20) as (jobs, node):
        other = {"type": "KernelDeadlock", "status": "False", "reason": "Fine", "message": "",
                 "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        jobs.kubectl("patch", "node", node, "--subresource=status",
                     "-p", json.dumps({"status": {"conditions": [other]}}))
        assert suspicion(jobs, node) is None
        lose(jobs, "gpt-1")
        found = wait_until(lambda: suspicion(jobs, node), "the condition", 120)
        assert (found["status"], found["reason"]) == ("True", "LockstepLost")
        assert f"TrainingJob {jobs.namespace}/gpt lost a machine on this node" in found["message"]
        managers = {each["manager"] for each in the(jobs, node)["metadata"]["managedFields"]}
        assert "lockstep-node-reports" in managers
        wait_until(lambda: suspicion(jobs, node) is None, "the condition to go", 120)
        left = [each["type"] for each in the(jobs, node)["status"]["conditions"]]
        assert "KernelDeadlock" in left, "another reporter's condition stays"


def test_command_of_the_documentation_removes_the_condition_that_an_operator_left(nodes_cluster):
    name = "left-behind"
    conditions = [{"type": each, "status": "True", "reason": "Some", "message": "",
                   "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                  for each in ("Ready", "LockstepSuspect")]
    nodes_cluster.kubectl("apply", "-f", "-", input=json.dumps(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))
    try:
        for patch in (json.dumps({"status": {"conditions": conditions}}), documented_patch()):
            nodes_cluster.kubectl("patch", "node", name, "--subresource=status", "-p", patch)
        left = json.loads(nodes_cluster.kubectl("get", "node", name, "-o", "json"))["status"]["conditions"]
        assert [each["type"] for each in left] == ["Ready"]
    finally:
        nodes_cluster.kubectl("delete", "node", name)


def test_no_node_is_written_unless_it_is_asked_for(nodes_cluster, tmp_path):
    with job_under(nodes_cluster, tmp_path) as (jobs, node):
        lose(jobs, "gpt-1")
        jobs.wait("gpt", lambda s: s.get("suspectNodes"), "the evidence")
        jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running", "the replacement")
        assert suspicion(jobs, node) is None
