"""TrainingJobs that are submitted on one cluster and run on another: two API servers with a real
Kueue and an operator on each, MultiKueue's own connection between them, and the manifests of
examples/multikueue."""

import contextlib
import json

import pytest
import yaml
from agent_kubelet import AgentKubelet
from cluster import cluster_in
from jobs import PATIENCE, Jobs, operator
from kueue import EXAMPLES, kueue
from proxy import Proxy
from waiting import wait_until

pytestmark = pytest.mark.slow  # Kueue's manager is minutes of building

TEAM = "team-a"  # the examples' namespace and queue
MANIFESTS = EXAMPLES / "multikueue"
CONFIGURATION = yaml.safe_load((MANIFESTS / "configuration.yaml").read_text())
QUICK = {"gcInterval": "2s", "workerLostTimeout": "3s"}
NOWHERE = ("127.0.0.1", 1)
# Ranks that live until somebody opens the gate, and save when they are asked to leave.
RANK = ('trap \'sleep 1; touch "{folder}/saved-$RANK"; exit 0\' TERM; '
        'touch "{folder}/began-$RANK"; while [ ! -e "{folder}/gate" ]; do sleep 0.05; done')


class Line:
    """By which the manager's Kueue comes to the worker."""

    def __init__(self, cluster):
        host, port = access(cluster)["clusters"][0]["cluster"]["server"].split("/")[-1].split(":")
        self._there = (host, int(port))
        self._proxy = Proxy((host, 0), self._there)
        self.server = f"https://{self._proxy.address}"

    def break_off(self):
        self._proxy.redirect(NOWHERE)
        self._proxy.reset()

    def mend(self):
        self._proxy.redirect(self._there)

    def close(self):
        self._proxy.close()


class Side:
    """One of the two clusters: its Kueue, and the jobs of the team."""

    def __init__(self, cluster, queues):
        self.cluster, self.queues, self.jobs = cluster, queues, None

    def names(self, kind):
        return self.cluster.kubectl("-n", TEAM, "get", kind, "-o", "name").split()

    def conditions(self, job):
        return self.queues.conditions(TEAM, job)


class Both:
    def __init__(self, manager, worker, line, folder):
        self.manager, self.worker, self.line, self._folder = manager, worker, line, folder

    def begin(self, name, **spec):
        """A job on the manager; the folder where its ranks leave their marks."""
        folder = self._folder / name
        folder.mkdir()
        self.manager.jobs.apply(
            name, RANK.format(folder=folder), labels={"kueue.x-k8s.io/queue-name": TEAM},
            **{"managedBy": "kueue.x-k8s.io/multikueue", "resourcesPerProcess": {"cpu": 1}, **spec})
        self.manager.jobs.wait_state(name, "Running")
        wait_until(lambda: began(folder) == 4, "its ranks", PATIENCE)
        return folder

    def wait_over(self):
        """The worker has nothing of any job any more."""
        for kind in ("tj", "workloads", "pods"):
            wait_until(lambda kind=kind: not self.worker.names(kind),
                       lambda kind=kind: f"{kind} on the worker: {self.worker.names(kind)}; "
                       f"{self.manager.queues.log()}", PATIENCE, 0.1)


def access(cluster):
    return json.loads(cluster.kubeconfig.read_text())


def began(folder):
    return len(list(folder.glob("began-*")))


def saved(folder):
    return len(list(folder.glob("saved-*")))


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        made = []
        for name in ("manager", "worker"):
            cluster = stack.enter_context(cluster_in(tmp_path_factory.mktemp(name)))
            cluster.install_crd()
            cluster.kubectl("create", "namespace", TEAM)
            more = {**CONFIGURATION} if name == "manager" else {}
            if more:
                more["multiKueue"] = {**more["multiKueue"], **QUICK}
            queues = stack.enter_context(kueue(cluster, tmp_path_factory.mktemp("kueue"), **more))
            made.append(Side(cluster, queues))
        manager, worker = made
        worker.queues.apply(MANIFESTS / "worker.yaml")
        line = Line(worker.cluster)
        stack.callback(line.close)
        introduce(manager.cluster, worker.cluster, line, tmp_path_factory.mktemp("access"))
        manager.queues.apply(MANIFESTS / "manager.yaml")
        yield manager, worker, line


def introduce(manager, worker, line, folder):
    """The Secret with the worker's kubeconfig."""
    config = access(worker)
    config["clusters"][0]["cluster"]["server"] = line.server
    token = worker.kubectl("-n", "kueue-system", "create", "token", "multikueue")
    config["users"][0]["user"] = {"token": token}
    (folder / "west.kubeconfig").write_text(json.dumps(config))
    manager.kubectl("-n", "kueue-system", "create", "secret", "generic", "west",
                    f"--from-file=kubeconfig={folder / 'west.kubeconfig'}")


@pytest.fixture
def both(sides, tmp_path):
    manager, worker, line = sides
    with contextlib.ExitStack() as stack:
        kubelet = stack.enter_context(AgentKubelet(worker.cluster, TEAM, tmp_path))
        for side, name in ((manager, "on-manager"), (worker, "on-worker")):
            folder = tmp_path / name
            folder.mkdir()
            side.jobs = Jobs(side.cluster, TEAM, kubelet, folder)
            stack.enter_context(operator(side.cluster.kubeconfig, folder,
                                         "--system-namespace", TEAM, "--kueue"))
        made = Both(manager, worker, line, tmp_path)
        yield made
        line.mend()
        for side in sides[:2]:
            side.queues.patch("ClusterQueue", TEAM, spec={"stopPolicy": "None"})
        manager.jobs.kubectl("delete", "tj", "--all")
        made.wait_over()


def test_a_job_is_submitted_on_one_cluster_and_runs_on_the_other(both):
    folder = both.begin("gpt")
    assert both.manager.names("pods") == []
    pods = both.worker.jobs.pods("gpt")
    assert len(pods) == 2
    status = both.manager.jobs.wait("gpt", lambda status: status == both.worker.jobs.status("gpt"),
                                    "the worker's status on the manager")
    assert status["queue"]["clusterQueue"] == TEAM
    wait_until(lambda: both.manager.conditions("gpt").get("PodsReady") == ("True", "Started"),
               "the manager's Kueue to hear of ready pods", PATIENCE, 0.1)
    (folder / "gate").touch()
    status = both.manager.jobs.wait_state("gpt", "Succeeded")
    assert status["restarts"]["application"] == status["restarts"]["infrastructure"] == 0
    wait_until(lambda: both.manager.conditions("gpt").get("Finished") == ("True", "Succeeded"),
               "Kueue to hear of its end", PATIENCE, 0.1)
    both.wait_over()  # Kueue takes it away
    assert both.manager.jobs.status("gpt")["state"] == "Succeeded"


def test_a_job_that_is_deleted_on_the_manager_ends_on_the_worker(both):
    folder = both.begin("gpt")
    both.manager.jobs.kubectl("delete", "tj", "gpt")
    both.wait_over()
    assert saved(folder) == 4


def test_suspended_job_leaves_the_worker_and_returns_when_resumed(both):
    folder = both.begin("gpt")
    both.manager.jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p",
                              '{"spec":{"suspend":true}}')
    both.wait_over()
    assert saved(folder) == 4
    assert both.manager.names("workloads") == []
    both.manager.jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p",
                              '{"spec":{"suspend":false}}')
    wait_until(lambda: len(both.worker.jobs.pods("gpt")) == 2, "its pods", PATIENCE, 0.1)
    (folder / "gate").touch()
    both.manager.jobs.wait_state("gpt", "Succeeded")


@pytest.mark.parametrize("where", ["manager", "worker"])
def test_evicted_job_saves_and_runs_again(both, where):
    side = getattr(both, where)
    folder = both.begin("gpt")
    side.queues.patch("ClusterQueue", TEAM, spec={"stopPolicy": "HoldAndDrain"})
    wait_until(lambda: side.queues.used(TEAM) == ["0"],
               lambda: f"its quota to be free: {side.queues.workload(TEAM, 'gpt')}", PATIENCE, 0.1)
    assert saved(folder) == 4
    wait_until(lambda: not both.worker.names("pods"), "its pods to go", PATIENCE, 0.1)
    side.queues.patch("ClusterQueue", TEAM, spec={"stopPolicy": "None"})
    wait_until(lambda: len(both.worker.jobs.pods("gpt")) == 2, "its pods", PATIENCE, 0.1)
    (folder / "gate").touch()
    both.manager.jobs.wait_state("gpt", "Succeeded")


def test_job_keeps_its_pods_while_manager_and_worker_are_disconnected(both):
    folder = both.begin("gpt")
    pods = both.worker.jobs.pods("gpt")
    both.line.break_off()
    wait_until(lambda: both.manager.conditions("gpt").get("Evicted", ("", ""))[0] == "True",
               "Kueue to give the worker up", PATIENCE, 0.1)
    both.line.mend()
    wait_until(lambda: both.manager.conditions("gpt").get("Admitted", ("", ""))[0] == "True",
               "Kueue to see it again", PATIENCE, 0.1)
    assert both.worker.jobs.pods("gpt") == pods
    (folder / "gate").touch()
    both.manager.jobs.wait_state("gpt", "Succeeded")


def test_job_deleted_while_the_worker_is_unreachable_ends_after_reconnection(both):
    folder = both.begin("gpt")
    both.line.break_off()
    both.manager.jobs.kubectl("delete", "tj", "gpt")
    wait_until(lambda: not both.manager.names("workloads"), "its Workload to go", PATIENCE, 0.1)
    assert len(both.worker.jobs.pods("gpt")) == 2
    both.line.mend()
    both.wait_over()
    assert saved(folder) == 4
