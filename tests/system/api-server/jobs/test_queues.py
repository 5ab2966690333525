"""TrainingJobs in the queues of a real Kueue, with the real operator and real agents."""

import contextlib
import datetime
import json
import os
import signal

import pytest
from agent_kubelet import AgentKubelet
from cluster import cluster_in
from jobs import PATIENCE, Jobs, operator
from kueue import conditions_of, kueue
from processes import children, environment
from waiting import wait_until

pytestmark = pytest.mark.slow  # Kueue's manager is minutes of building

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
# Ranks that live until somebody opens the gate, and save when they are asked to leave.
RANK = ('trap \'sleep 1; date +%s.%N > "{folder}/saved-$RANK"; exit 0\' TERM; '
        'touch "{folder}/began-$RANK"; while [ ! -e "{folder}/gate" ]; do sleep 0.05; done')
CPU = {"resourcesPerProcess": {"cpu": 1}}  # 4 of a job
NOW = "2026-01-01T00:00:00Z"  # any: Kueue asks only whether there is a time
FLAVOR = {"nodeLabels": {"pool": "a3"},
          "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]}


@pytest.fixture(scope="module")
def queued_cluster(tmp_path_factory):
    """A cluster of its own, for Kueue sees all namespaces."""
    with cluster_in(tmp_path_factory.mktemp("cluster"), "--audit") as made:
        made.install_crd()
        yield made


@pytest.fixture(scope="module")
def queues(queued_cluster, tmp_path_factory):
    with kueue(queued_cluster, tmp_path_factory.mktemp("kueue")) as made:
        made.make("ResourceFlavor", "a3", spec=FLAVOR)
        made.make("WorkloadPriorityClass", "high", value=1000)
        yield made


@pytest.fixture
def jobs(queued_cluster, queues, tmp_path):
    with contextlib.ExitStack() as stack:
        namespace = stack.enter_context(queued_cluster.namespace("queues"))
        kubelet = stack.enter_context(AgentKubelet(queued_cluster, namespace, tmp_path))
        made = Jobs(queued_cluster, namespace, kubelet, tmp_path)
        # All tests' operators have one identity: the claim on all namespaces stays with an identity
        # for a third of the lease after its release.
        stack.enter_context(operator(queued_cluster.kubeconfig, tmp_path,
                                     "--system-namespace", "kube-system", "--kueue"))
        made.queue = namespace
        yield made
        made.kubectl("delete", "tj", "--all")
        wait_until(lambda: not made.kubectl("get", "pods", "-o", "name"),
                   lambda: "pods to go:\n" + made.kubectl("get", "pods", "-o", "yaml"), 120, 0.1)


def begin(jobs, folder, name, priority=None, queue=None, more=None, **spec):
    """A job in the queue, whose ranks leave their marks in a folder of its name. `more`: labels."""
    (folder / name).mkdir()
    labels = {QUEUE: queue or jobs.queue} | ({PRIORITY: priority} if priority else {}) | (more or {})
    jobs.apply(name, RANK.format(folder=folder / name), labels=labels, **{**CPU, **spec})
    return folder / name


def wait_queued(jobs, name, words):
    return jobs.wait(name, lambda status: status.get("state") == "Queued"
                     and words in status["reason"], f"{name} Queued: {words}")


def began(folder):
    return len(list(folder.glob("began-*")))


def audited(cluster, condition):
    """When requests of which it holds were granted."""
    lines = (cluster.folder / "audit.log").read_text().splitlines(keepends=True)
    entries = [json.loads(line) for line in lines if line.endswith("\n")]  # whole ones
    return [each["stageTimestamp"] for each in entries
            if each["stage"] == "ResponseComplete" and each["responseStatus"]["code"] < 300
            and condition(each)]


def test_a_job_waits_for_quota_and_has_no_pod_until_then(jobs, queues, tmp_path):
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    first = begin(jobs, tmp_path, "first")
    status = jobs.wait_state("first", "Running")
    assert status["queue"]["clusterQueue"] == jobs.queue
    assert status["queue"]["flavors"] == {"cpu": "a3", "memory": "a3"}
    for pod in json.loads(jobs.kubectl("get", "pods", "-o", "json"))["items"]:
        assert pod["spec"]["nodeSelector"] == FLAVOR["nodeLabels"]
        assert FLAVOR["tolerations"][0] in pod["spec"]["tolerations"]
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
        assert QUEUE not in pod["metadata"]["labels"]
    wait_until(lambda: queues.conditions(jobs.namespace, "first").get("PodsReady")
               == ("True", "Started"), "Kueue to hear of ready pods", 60, 0.1)
    second = begin(jobs, tmp_path, "second")
    status = wait_queued(jobs, "second", "insufficient unused quota")
    [admitted] = [each for each in status["conditions"] if each["type"] == "Admitted"]
    assert admitted["status"] == "False" and admitted["message"] in status["reason"]
    assert jobs.pods("second") == {}
    (first / "gate").touch()
    jobs.wait_state("first", "Succeeded")
    jobs.wait_state("second", "Running")
    assert queues.conditions(jobs.namespace, "first")["Finished"] == ("True", "Succeeded")
    (second / "gate").touch()
    jobs.wait_state("second", "Succeeded")


def test_preempted_job_saves_before_releasing_its_quota_and_resumes_later(
        jobs, queues, queued_cluster, tmp_path):
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    low = begin(jobs, tmp_path, "low")
    jobs.wait_state("low", "Running")
    wait_until(lambda: began(low) == 4, "its ranks", 60)
    before = queues.workload(jobs.namespace, "low")["metadata"]["uid"]
    name = queues.workload(jobs.namespace, "low")["metadata"]["name"]
    high = begin(jobs, tmp_path, "high", "high")
    jobs.wait_state("high", "Running")
    status = wait_queued(jobs, "low", "queue ")
    saved = [float(mark.read_text()) for mark in low.glob("saved-*")]
    assert len(saved) == 4
    # The operator's patch without a field manager is the release.
    [released] = audited(queued_cluster, lambda each: each["verb"] == "patch"
                         and each["requestURI"].endswith(f"/workloads/{name}/status"))
    assert max(saved) <= datetime.datetime.fromisoformat(released).timestamp()
    made = audited(queued_cluster, lambda each: each["verb"] == "create"
                   and each["requestURI"].endswith(f"/{jobs.namespace}/pods"))
    assert sum(each > released for each in made) == 2  # those of the other
    assert status.get("lastFailure") is None
    assert status["restarts"]["application"] == status["restarts"]["infrastructure"] == 0
    (high / "gate").touch()
    jobs.wait_state("high", "Succeeded")
    status = jobs.wait_state("low", "Running")
    assert queues.workload(jobs.namespace, "low")["metadata"]["uid"] == before
    wait_until(lambda: queues.conditions(jobs.namespace, "low").get("PodsReady")
               == ("True", "Started"), "Kueue to hear of the new pods", 60, 0.1)
    (low / "gate").touch()
    jobs.wait_state("low", "Succeeded")
    wait_until(lambda: queues.conditions(jobs.namespace, "low").get("Finished")
               == ("True", "Succeeded"), "Kueue to hear of its end", 60, 0.1)


def test_a_suspended_job_leaves_the_queue(jobs, queues, tmp_path):
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    folder = begin(jobs, tmp_path, "gpt")
    jobs.wait_state("gpt", "Running")
    jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    jobs.wait_state("gpt", "Suspended")
    wait_until(lambda: queues.workload(jobs.namespace, "gpt") is None, "its Workload to go", 60)
    wait_until(lambda: queues.used(jobs.queue) == ["0"], "its quota to be free", 60, 0.1)
    jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    jobs.wait_state("gpt", "Running")
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")


def test_a_lost_machine_is_replaced_within_the_same_admission(jobs, queues, tmp_path):
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    folder = begin(jobs, tmp_path, "gpt")
    jobs.wait_state("gpt", "Running")
    wait_until(lambda: queues.conditions(jobs.namespace, "gpt").get("PodsReady")
               == ("True", "Started"), "Kueue to hear of ready pods", 60, 0.1)
    uid = queues.workload(jobs.namespace, "gpt")["metadata"]["uid"]
    jobs.kubelet.process("gpt-1").kill()
    wait_until(lambda: queues.conditions(jobs.namespace, "gpt")["PodsReady"]
               == ("True", "Recovered"), "Kueue to hear of the replacement", 120, 0.1)
    assert queues.workload(jobs.namespace, "gpt")["metadata"]["uid"] == uid
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")


def test_shrunk_gang_without_elastic_annotation_keeps_the_quota_of_all_machines(
        jobs, queues, tmp_path):
    """For the machine has a pod that waits; it comes back without another admission."""
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    folder = begin(jobs, tmp_path, "gpt", elastic={"minMachines": 1, "shrinkAfter": "5s"})
    jobs.wait_state("gpt", "Running")
    before = queues.workload(jobs.namespace, "gpt")
    jobs.kubelet.hold({1})
    jobs.kubelet.process("gpt-1").kill()
    jobs.wait("gpt", lambda status: status["state"] == "Running"
              and "1 of 2 machines take part" in status.get("reason", ""), "the gang of one")
    wait_until(lambda: queues.conditions(jobs.namespace, "gpt")["PodsReady"]
               == ("True", "Recovered"), "Kueue to hear that the pods are enough", 60, 0.1)
    after = queues.workload(jobs.namespace, "gpt")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    assert queues.used(jobs.queue) == ["4"]
    begin(jobs, tmp_path, "late")
    wait_queued(jobs, "late", "insufficient unused quota")
    jobs.kubelet.hold({})
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")
    (tmp_path / "late" / "gate").touch()
    jobs.wait_state("late", "Succeeded")


def members(status):
    return status.get("elastic", {}).get("members")


def shrunk(status):
    return [(each["status"], each["reason"]) for each in status["conditions"]
            if each["type"] == "Shrunk"]


def test_elastic_gang_releases_quota_and_grows_at_a_commit_once_quota_is_free(
        jobs, queues, tmp_path):
    steps = 100000  # more than there is time for
    queues.make_queue(jobs.namespace, jobs.queue, cpu=3)
    jobs.apply("gpt", None, labels={QUEUE: jobs.queue},
               annotations={"kueue.x-k8s.io/elastic-job": "true"}, numMachines=3,
               processesPerMachine=1, framework="Torch", resourcesPerProcess={"cpu": 1},
               trainer={"modelShape": {"layers": 1, "heads": 2, "width": 32, "vocabulary": 256},
                        "data": ["/usr/share/common-licenses/GPL-3"], "sequenceLength": 32,
                        "learningRate": 1e-3, "globalBatchSize": 6, "microBatchSize": 1,
                        "steps": steps, "decaySteps": steps, "checkpointEvery": 5},
               elastic={"minMachines": 1, "shrinkAfter": "10s", "growAfter": "2s"},
               checkpoint={"path": str(tmp_path / "checkpoints")})
    whole = jobs.wait_state("gpt", "Running")["gangGeneration"]
    [first] = queues.workloads(jobs.namespace, "gpt").values()
    assert first["spec"]["podSets"][0]["count"] == 3
    late = begin(jobs, tmp_path, "late", numMachines=1, processesPerMachine=1,
                 resourcesPerProcess={"cpu": 1})
    wait_queued(jobs, "late", "insufficient unused quota")

    # Smaller: the same Workload, and what it gives back goes to another job.
    jobs.kubelet.hold({2})
    before = jobs.pods("gpt")
    jobs.kubelet.process("gpt-2").kill()
    jobs.wait_state("late", "Running")
    status = jobs.wait("gpt", lambda s: members(s) == "0-1" and s["state"] == "Running"
                       and s["gangGeneration"] != whole, "the gang of two")
    assert status["elastic"]["withoutQuota"] == "2"
    small = status["gangGeneration"]
    name = first["metadata"]["name"]
    second = queues.workloads(jobs.namespace, "gpt")[name]
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["spec"]["podSets"][0]["count"] == 2
    assert set(jobs.pods("gpt")) == {"gpt-0", "gpt-1"}

    # A growth beyond the quota waits, and the gang runs on.
    status = jobs.wait("gpt", lambda s: "a growth to 3 machines waits" in s["reason"]
                       and "insufficient unused quota" in s["reason"], "Kueue's words")
    assert status["gangGeneration"] == small and shrunk(status) == [("True", "WaitsForQueue")]
    slices = queues.workloads(jobs.namespace, "gpt")
    assert len(slices) == 2 and queues.used(jobs.queue) == ["3"]
    [growth] = set(slices) - {name}

    # It is admitted: pods at once, ranks at a commit.
    [rank] = [pid for pid in children(jobs.kubelet.process("gpt-0").pid)
              if "RANK" in environment(pid)]
    os.kill(rank, signal.SIGSTOP)
    jobs.kubelet.hold(set())
    (late / "gate").touch()
    status = jobs.wait("gpt", lambda s: members(s) == "0-2" and s["queue"]["workload"] == growth,
                       "the machine to be back")
    assert status["gangGeneration"] == small
    slices = queues.workloads(jobs.namespace, "gpt")
    assert conditions_of(slices[name])["Finished"] == ("True", "WorkloadSliceReplaced")
    assert conditions_of(slices[growth])["Admitted"][0] == "True"
    wait_until(lambda: queues.used(jobs.queue) == ["3"], "the quota of three", 60, 0.1)
    jobs.wait("gpt", lambda s: shrunk(s) == [("True", "WaitsForCommit")], "a commit to be awaited")
    os.kill(rank, signal.SIGCONT)
    status = jobs.wait("gpt", lambda s: s["state"] == "Running" and s["gangGeneration"] != small,
                       "the gang of three")
    assert shrunk(status)[0][0] == "False" and "withoutQuota" not in status["elastic"]
    after = jobs.pods("gpt")
    assert {each: after[each] for each in ("gpt-0", "gpt-1")} == {
        each: before[each] for each in ("gpt-0", "gpt-1")}
    assert status["restarts"]["infrastructure"] == 1  # the one that was killed

    # Suspended, it leaves nothing behind.
    jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    jobs.wait_state("gpt", "Suspended")
    wait_until(lambda: not queues.workloads(jobs.namespace, "gpt"), "its Workloads to go", 60)
    wait_until(lambda: queues.used(jobs.queue) == ["0"], "its quota to be free", 60, 0.1)


def test_deactivated_workload_stops_its_gang(jobs, queues, tmp_path):
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    folder = begin(jobs, tmp_path, "gpt")
    jobs.wait_state("gpt", "Running")
    workload = "workload/" + queues.workload(jobs.namespace, "gpt")["metadata"]["name"]
    jobs.kubectl("patch", workload, "--type=merge", "-p", '{"spec":{"active":false}}')
    wait_queued(jobs, "gpt", "not active")
    wait_until(lambda: queues.used(jobs.queue) == ["0"], "its quota to be free", 60, 0.1)
    jobs.kubectl("patch", workload, "--type=merge", "-p", '{"spec":{"active":true}}')
    jobs.wait_state("gpt", "Running")
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")


def test_gang_leaves_a_stopped_queue_and_reports_the_reason_from_kueue(jobs, queues, tmp_path):
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    folder = begin(jobs, tmp_path, "gpt")
    for kind, namespace in (("ClusterQueue", None), ("LocalQueue", jobs.namespace)):
        jobs.wait_state("gpt", "Running")
        queues.patch(kind, jobs.queue, namespace, spec={"stopPolicy": "HoldAndDrain"})
        wait_queued(jobs, "gpt", kind)  # is stopped, is inactive
        wait_until(lambda: queues.used(jobs.queue) == ["0"], "its quota to be free", 60, 0.1)
        queues.patch(kind, jobs.queue, namespace, spec={"stopPolicy": "None"})
    jobs.wait_state("gpt", "Running")
    pods = jobs.pods("gpt")
    jobs.kubectl("delete", "localqueue", jobs.queue)
    begin(jobs, tmp_path, "late")
    wait_queued(jobs, "late", "doesn't exist")
    assert jobs.pods("gpt") == pods  # what Kueue admitted it leaves
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")


def test_admission_checks_decide_whether_a_gang_runs(jobs, queues, tmp_path):
    check = jobs.namespace
    queues.make("AdmissionCheck", check, spec={"controllerName": "example.com/tests"})
    queues.patch("admissioncheck", check, subresource="status", status={"conditions": [
        {"type": "Active", "status": "True", "reason": "Active", "message": "",
         "lastTransitionTime": NOW}]})
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4,
                      admissionChecksStrategy={"admissionChecks": [{"name": check}]})

    def say(state, message, **update):
        """As the check's controller would, once Kueue asks for it."""
        def asked():
            found = (queues.workload(jobs.namespace, "gpt") or {}).get("status", {})
            return "Requeued" not in str(found.get("conditions")) or \
                found.get("admission") and found.get("admissionChecks")

        wait_until(asked, "Kueue to ask", 60, 0.1)
        name = queues.workload(jobs.namespace, "gpt")["metadata"]["name"]
        queues.patch("workload", name, jobs.namespace, "status", status={"admissionChecks": [
            {"name": check, "state": state, "message": message, "lastTransitionTime": NOW,
             **update}]})

    folder = begin(jobs, tmp_path, "gpt")
    wait_queued(jobs, "gpt", "waits for admission checks")
    say("Retry", "no capacity yet")
    wait_until(lambda: queues.conditions(jobs.namespace, "gpt").get("Requeued")
               == ("True", "BackoffFinished"), "it to be queued again", 60, 0.1)
    wait_queued(jobs, "gpt", "waits for admission checks")
    assert jobs.pods("gpt") == {}
    ready = {"podSetUpdates": [{"name": "main", "annotations": {"example.com/capacity": "r1"}}]}
    say("Ready", "", **ready)
    jobs.wait_state("gpt", "Running")
    for pod in json.loads(jobs.kubectl("get", "pods", "-o", "json"))["items"]:
        assert pod["metadata"]["annotations"]["example.com/capacity"] == "r1"
    say("Rejected", "the capacity is withdrawn")
    wait_queued(jobs, "gpt", "is not active: The workload is deactivated due to AdmissionCheck in "
                             f"Rejected state: \"{check}\" (the capacity is withdrawn)")
    wait_until(lambda: queues.used(jobs.queue) == ["0"], "its quota to be free", 60, 0.1)
    name = queues.workload(jobs.namespace, "gpt")["metadata"]["name"]
    queues.patch("workload", name, jobs.namespace, spec={"active": True})
    wait_queued(jobs, "gpt", "waits for admission checks")
    say("Ready", "", **ready)
    jobs.wait_state("gpt", "Running")
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")


def test_job_reports_a_missing_queue_and_waits_for_the_queue(jobs, queues, tmp_path):
    folder = begin(jobs, tmp_path, "gpt")
    wait_queued(jobs, "gpt", "doesn't exist")
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    jobs.wait_state("gpt", "Running")
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")


def test_operator_reports_missing_kueue_setting_if_kueue_queues_single_pods(jobs, queues, tmp_path):
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    # The default queue is too small for a pod of the job. Otherwise Kueue would admit the pods, and
    # the reason would be gone within milliseconds.
    small = jobs.queue + "-small"
    queues.make_queue(jobs.namespace, small, cpu=1)
    queues.make("LocalQueue", "default", jobs.namespace, spec={"clusterQueue": small})
    queues.wait_active("LocalQueue", "default", jobs.namespace)
    # Its webhook for pods follows the queues by itself.
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"},
                      "spec": {"containers": [{"name": "c", "image": "none"}]}})
    wait_until(lambda: "kueue.x-k8s.io" in jobs.kubectl(
        "create", "--dry-run=server", "-o", "json", "-f", "-", input=pod),
        "Kueue to take a pod without a queue for its own", PATIENCE, 0.2)
    jobs.apply("bare", "true", **CPU)
    jobs.wait("bare", lambda status: "externalFrameworks" in status.get("reason", ""),
              "word of the setting")
    folder = begin(jobs, tmp_path, "gpt")
    jobs.kubectl("delete", "tj", "bare")
    jobs.wait_state("gpt", "Running")
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")


def test_kueue_does_not_admit_a_template_that_excludes_the_nodes_of_the_flavor(jobs, queues):
    queues.make("ResourceFlavor", "zone", spec={"nodeLabels": {"zone": "a"}})
    queues.make_queue(jobs.namespace, jobs.queue + "-z", cpu=4, flavor="zone")
    template = {"spec": {"nodeSelector": {"zone": "b"}, "containers": [{"name": "worker"}]}}
    jobs.apply("bad", "true", labels={QUEUE: jobs.queue + "-z"}, template=template, **CPU)
    wait_queued(jobs, "bad", "affinity")
    assert jobs.pods("bad") == {}


class Racks:
    """A queue whose nodes Kueue chooses: four, of which three are in one rack. Machines have a node
    each, for two don't fit on one."""

    LEVEL = "example.com/rack"
    JOB = {"template": {"metadata": {"annotations": {
        "kueue.x-k8s.io/podset-required-topology": LEVEL}}}, "resourcesPerProcess": {"cpu": 400}}

    def __init__(self, jobs, queues):
        self._jobs, self._queues = jobs, queues
        self._name = f"racks-{jobs.namespace}"
        self.nodes = [f"{jobs.namespace}-{index}" for index in range(4)]
        for node, name in zip(self.nodes, ["b", "a", "a", "a"]):  # by itself machine 0 goes to the first
            jobs.kubectl("label", "node", node, f"{self.LEVEL}={name}", f"pool={self._name}")
        queues.make("Topology", self._name, spec={"levels": [
            {"nodeLabel": self.LEVEL}, {"nodeLabel": "kubernetes.io/hostname"}]})
        queues.make("ResourceFlavor", self._name, spec={"nodeLabels": {"pool": self._name},
                                                        "topologyName": self._name})
        queues.make_queue(jobs.namespace, jobs.queue, cpu=10000, flavor=self._name)

    def places(self):
        """Nodes by machine, of pods that run and stay."""
        items = json.loads(self._jobs.kubectl("get", "pods", "-l", "lockstep.dev/job=gpt",
                                              "-o", "json"))["items"]
        return {pod["metadata"]["labels"]["lockstep.dev/machine"]: pod["spec"]["nodeName"]
                for pod in items if pod["status"]["phase"] == "Running"
                and "deletionTimestamp" not in pod["metadata"]}

    def lose_a_node(self, how):
        """`how(node)`, of machine 1: Kueue gives the gang the other one of its rack, within the same
        admission."""
        self._jobs.wait_state("gpt", "Running")
        before = self.places()
        assert len(set(before.values())) == 2 and set(before.values()) < set(self.nodes[1:])
        uid = self._queues.workload(self._jobs.namespace, "gpt")["metadata"]["uid"]
        how(before["1"])
        [spare] = set(self.nodes[1:]) - set(before.values())
        wait_until(lambda: self.places() == {"0": before["0"], "1": spare}, "Kueue's next node", 90,
                   0.1)
        self._jobs.wait_state("gpt", "Running")
        assert self._queues.workload(self._jobs.namespace, "gpt")["metadata"]["uid"] == uid
        return before["1"]


def test_kueue_places_gang_and_replacement_on_nodes_of_one_rack(jobs, queues, tmp_path):
    racks = Racks(jobs, queues)
    folder = begin(jobs, tmp_path, "gpt", **racks.JOB)
    racks.lose_a_node(lambda node: jobs.kubectl("delete", "node", node))
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")


def test_kueue_replaces_a_lost_node_while_its_pod_cannot_terminate(jobs, queues, tmp_path):
    racks = Racks(jobs, queues)
    folder = begin(jobs, tmp_path, "gpt", failurePolicy={"machineLostAfter": "6s"}, **racks.JOB)
    lost = racks.lose_a_node(jobs.kubelet.lose)  # which Kubernetes misses after 50 s
    [stuck] = [pod for pod in json.loads(jobs.kubectl("get", "pods", "-o", "json"))["items"]
               if pod["spec"].get("nodeName") == lost]
    assert "deletionTimestamp" in stuck["metadata"] and stuck["status"]["phase"] == "Running"
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")
    jobs.kubectl("delete", "node", lost)  # and with it its pod goes


def test_kueue_gives_another_node_to_a_machine_whose_node_has_a_taint(jobs, queues, tmp_path):
    """Without the taint the machine gets its node again, because Kueue believes that the node is well."""
    def spoil(node):
        jobs.kubectl("taint", "node", node, "lockstep.dev/suspect=gpu:NoSchedule")
        jobs.kubectl("delete", "pod", "gpt-1")

    racks = Racks(jobs, queues)
    folder = begin(jobs, tmp_path, "gpt", **racks.JOB)
    lost = racks.lose_a_node(spoil)
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")
    jobs.kubectl("taint", "node", lost, "lockstep.dev/suspect-")


def test_multikueue_manager_has_only_the_workload_and_the_worker_runs_the_job(
        jobs, queues, tmp_path):
    """Both clusters in one, after each other; what MultiKueue carries between them by hand."""
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    begin(jobs, tmp_path, "gpt", managedBy="kueue.x-k8s.io/multikueue")
    wait_until(lambda: queues.conditions(jobs.namespace, "gpt").get("Admitted")
               == ("True", "Admitted"), "its Workload to be admitted", 60, 0.1)
    made = queues.workload(jobs.namespace, "gpt")
    untouched = {"observedGeneration": -1}  # the CRD's default
    assert jobs.status("gpt") == untouched and jobs.pods("gpt") == {}
    jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    wait_until(lambda: queues.workload(jobs.namespace, "gpt") is None, "its Workload to go", 60, 0.1)
    jobs.kubectl("delete", "tj", "gpt")

    (tmp_path / "gpt").rmdir()
    name = made["metadata"]["name"]
    folder = begin(jobs, tmp_path, "gpt",
                   more={"kueue.x-k8s.io/prebuilt-workload-name": name})
    wait_queued(jobs, "gpt", f"its Workload {name}, which MultiKueue creates, does not exist")
    labels = {key: value for key, value in made["metadata"]["labels"].items()
              if key != "kueue.x-k8s.io/job-uid"}
    jobs.kubectl("create", "-f", "-", input=json.dumps(
        {"apiVersion": made["apiVersion"], "kind": "Workload", "spec": made["spec"],
         "metadata": {"name": name, "labels": {**labels, "kueue.x-k8s.io/multikueue-origin": "m"}}}))
    jobs.wait_state("gpt", "Running")
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")
    wait_until(lambda: queues.conditions(jobs.namespace, "gpt").get("Finished")
               == ("True", "Succeeded"), "Kueue to hear of its end", 60, 0.1)
    assert queues.workload(jobs.namespace, "gpt")["metadata"]["name"] == name


def test_gang_returns_to_the_queue_after_the_pods_ready_timeout(jobs, queues, tmp_path):
    """The first one of two whose Kueue has no patience."""
    queues.restart(waitForPodsReady={"timeout": "6s",
                                     "requeuingStrategy": {"backoffBaseSeconds": 1}})
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    jobs.kubelet.hold({1})
    folder = begin(jobs, tmp_path, "gpt", health={"startTimeout": "1s"})  # Kueue's counts
    jobs.wait("gpt", lambda status: status.get("state") == "Pending", "its pods")
    uid = queues.workload(jobs.namespace, "gpt")["metadata"]["uid"]
    wait_queued(jobs, "gpt", "Exceeded the PodsReady timeout")
    workload = queues.workload(jobs.namespace, "gpt")
    assert workload["status"]["requeueState"]["count"] >= 1
    jobs.kubelet.hold({})
    status = jobs.wait_state("gpt", "Running")
    assert status["restarts"]["application"] == status["restarts"]["infrastructure"] == 0
    assert queues.workload(jobs.namespace, "gpt")["metadata"]["uid"] == uid
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")


def test_gang_keeps_running_after_kueue_is_removed(jobs, queues, tmp_path):
    """The last one: afterwards there is none."""
    queues.make_queue(jobs.namespace, jobs.queue, cpu=4)
    folder = begin(jobs, tmp_path, "gpt")
    jobs.wait_state("gpt", "Running")
    pods = jobs.pods("gpt")
    queues.remove()
    begin(jobs, tmp_path, "late")
    wait_queued(jobs, "late", "Kueue is not installed")
    assert jobs.status("gpt")["state"] == "Running"
    assert jobs.pods("gpt") == pods
    assert jobs.pods("late") == {}
    (folder / "gate").touch()
    jobs.wait_state("gpt", "Succeeded")
