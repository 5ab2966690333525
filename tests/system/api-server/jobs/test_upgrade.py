"""An upgrade from an earlier build and back, while jobs run: old agents with the new operator, new agents
with the old one. Each operator has the options, the rights and the CRD of its own chart.

Programs of an earlier commit come from `tools/lib/older`, which builds them in minutes; without them the
tests are skipped. LOCKSTEP_OLDER names another tree with programs in build/release/bin.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess

import pytest
import yaml
from agent_kubelet import AgentKubelet
from cluster_fixture import cluster_fixture
from jobs import Jobs
from paths import ROOT
from tls import binary
from waiting import wait_until

pytestmark = pytest.mark.slow

PATIENCE = 120.0
SYSTEM, OPERATOR = "lockstep-system", "lockstep-operator"
JOB = {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "accepted"},
       "spec": {"image": "example.com/test:1", "command": ["true"]}}
# Without nodes no pod of an operator runs: its process runs here, as its Deployment asks for it.
cluster = cluster_fixture("module")


class Build:
    """A tree with its programs, installed by its chart; its images have `name` as their tag."""

    def __init__(self, name, tree, programs):
        self.name, self.chart, self.programs = name, tree / "helm/lockstep", pathlib.Path(programs)

    def image(self):
        return f"lockstep/worker:{self.name}"


@pytest.fixture(scope="module")
def builds():
    given = os.environ.get("LOCKSTEP_OLDER")
    if given is None:
        done = subprocess.run([ROOT / "tools/lib/older", "--where"], capture_output=True, text=True)
        if done.returncode or not pathlib.Path(done.stdout.strip(), "build/complete").exists():
            pytest.skip(f"no programs of an earlier build here: run tools/lib/older. {done.stderr}")
        given = done.stdout.strip()
    older = Build("older", pathlib.Path(given), pathlib.Path(given, "build/release/bin"))
    return older, Build("newer", ROOT, pathlib.Path(binary(OPERATOR)).parent)


class Installation:
    """The release of Helm, and the operator that its Deployment asks for."""

    def __init__(self, cluster, folder):
        self._cluster, self._folder = cluster, folder
        self._process = None

    def change(self, build, *verb):
        """Helm's `verb`, after which an operator of this build runs and no other."""
        values = self._folder / "values.yaml"
        values.write_text(yaml.safe_dump({"replicas": 1, "leaseSeconds": 60, "image": {"tag": build.name},
                                          "agent": {"image": {"tag": build.name}}}))
        given = [] if verb[0] == "rollback" else [build.chart, "--values", values]
        self._cluster.helm(*verb[:1], "lockstep", *verb[1:], *given, "--namespace", SYSTEM)
        found = json.loads(self._cluster.kubectl("-n", SYSTEM, "get", "deployment", OPERATOR, "-o", "json"))
        [container] = found["spec"]["template"]["spec"]["containers"]
        assert container["image"].endswith(f":{build.name}")
        self.stop()
        before = self._holder()
        self._start(build, [each for each in container["args"] if not each.startswith("--health-address")])
        wait_until(lambda: self._holder() not in ("", before), "the operator to lead", PATIENCE, 0.1)
        # The API server takes a CRD and its rules into use at different times, and refuses jobs between them.
        wait_until(self._accepts_jobs, "CRD and rules of one version", PATIENCE, 0.1)

    def _accepts_jobs(self):
        """Five times in a row: the first answers may come from the rules of before."""
        return all(self._cluster.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(JOB),
                                         check=False).returncode == 0 for _ in range(5))

    def _start(self, build, arguments):
        with open(self._folder / "operator.log", "ab") as log:
            self._process = subprocess.Popen(
                [build.programs / OPERATOR, *arguments, "--kubeconfig", self._kubeconfig(),
                 "--system-namespace", SYSTEM, "--metrics-address", "127.0.0.1:0", "--health-address",
                 "127.0.0.1:0", "--log-format", "text"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _kubeconfig(self):
        """With the rights that the chart gives the operator."""
        token = wait_until(lambda: self._cluster.kubectl("-n", SYSTEM, "create", "token", OPERATOR, check=False)
                           .stdout.strip(), "the service account", PATIENCE, 0.1)
        config = yaml.safe_load(self._cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        path = self._folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def _holder(self):
        lease = self._cluster.kubectl("-n", SYSTEM, "get", "lease", OPERATOR, "-o",
                                      "jsonpath={.spec.holderIdentity}", check=False)
        return lease.stdout if lease.returncode == 0 else ""

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            assert self._process.wait(60) is not None
            self._process = None


@pytest.fixture
def installation(cluster, tmp_path):
    cluster.kubectl("create", "namespace", SYSTEM)
    made = Installation(cluster, tmp_path)
    yield made
    made.stop()
    with contextlib.suppress(AssertionError):
        cluster.helm("uninstall", "lockstep", "--namespace", SYSTEM)


@pytest.fixture
def jobs(cluster, namespace, builds, installation, tmp_path):
    with AgentKubelet(cluster, namespace, tmp_path, programs={
            each.image(): each.programs for each in builds}) as kubelet:
        yield Jobs(cluster, namespace, kubelet, tmp_path)
        cluster.kubectl("-n", namespace, "delete", "tj", "--all", "--wait=false")
        wait_until(lambda: not cluster.kubectl("-n", namespace, "get", "pods", "-o", "name"), "the pods to go",
                   PATIENCE, 0.1)


class Watched:
    """A job that runs until its gate opens, and what must stay as it was."""

    def __init__(self, jobs, name, folder):
        self.jobs, self.name, self._gate = jobs, name, folder / f"{name}.gate"
        jobs.apply(name, f'while [ ! -e "{self._gate}" ]; do sleep 0.05; done', failurePolicy={"maxRestarts": 5})
        self.wait_running(epoch=1, restarts=0)

    def wait_running(self, epoch, restarts, after=None):
        """Another generation than `after` runs, and its restart is counted: the parts may come one by one."""
        self.jobs.wait(self.name, lambda status: status.get("state") == "Running" and status.get("ready") == "2/2"
                       and status["epoch"] == epoch and status["gangGeneration"] != after
                       and status["restarts"]["total"] == restarts, f"{self.name} in epoch {epoch}")

    def as_it_is(self):
        """Its pods, the processes of its agents and its place in time."""
        status = self.jobs.status(self.name)
        pods = self.jobs.pods(self.name)
        return (pods, [self.jobs.kubelet.process(pod).pid for pod in pods],
                [status[each] for each in ("state", "epoch", "gangGeneration", "restarts")])

    def programs(self):
        """The folders of its agents' programs."""
        return {pathlib.Path(self.jobs.kubelet.process(pod).args[0]).parent for pod in self.jobs.pods(self.name)}

    def kill_rank(self):
        """The gang restarts in place, and the operator reports it."""
        pods, agents, (_, epoch, generation, restarts) = self.as_it_is()
        rank = int(subprocess.check_output(["pgrep", "-f", "-n", f"^sh -c .*{self._gate}"]))
        os.kill(rank, signal.SIGKILL)
        self.wait_running(epoch, restarts["total"] + 1, generation)
        assert self.as_it_is()[:2] == (pods, agents)

    def lose_machine(self):
        """The operator replaces machine 1 by one with the job's own agent."""
        pods, _, (_, epoch, generation, restarts) = self.as_it_is()
        programs = self.programs()
        [name] = [pod for pod in pods if pod.startswith(f"{self.name}-1")]
        self.jobs.kubelet.process(name).kill()
        wait_until(lambda: (now := self.jobs.pods(self.name)) != pods and len(now) == 2, "the new machine", PATIENCE, 0.1)
        self.wait_running(epoch + 1, restarts["total"] + 1, generation)
        assert self.programs() == programs

    def finish(self):
        self._gate.touch()
        self.jobs.wait_state(self.name, "Succeeded")


def test_jobs_run_on_through_an_upgrade_and_back(builds, installation, jobs, tmp_path):
    older, newer = builds
    installation.change(older, "install")
    first = Watched(jobs, "first", tmp_path)
    assert first.programs() == {older.programs}
    before = first.as_it_is()

    installation.change(newer, "upgrade")
    second = Watched(jobs, "second", tmp_path)  # which the newer operator begins, so it has looked at the first
    assert second.programs() == {newer.programs}
    assert first.as_it_is() == before
    first.kill_rank()
    first.lose_machine()

    states = [each.as_it_is() for each in (first, second)]
    installation.change(older, "rollback", "1")
    third = Watched(jobs, "third", tmp_path)
    assert third.programs() == {older.programs}
    assert [each.as_it_is() for each in (first, second)] == states
    second.kill_rank()
    second.lose_machine()
    for each in (first, second, third):
        each.finish()
