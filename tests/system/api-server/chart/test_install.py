"""The chart on a real API server: installed, upgraded, rolled back and uninstalled by Helm."""

import base64
import json
import re
import shutil

import chart
import parts
import pytest
import yaml
from cluster import RULES
from test_chart import MONITORS, PROMETHEUS_OPERATOR
from waiting import wait_until

PATIENCE = 120.0
CRD = "trainingjobs.lockstep.dev"
MEBIBYTE = 2**20  # what a Secret holds at most, and so a release
JOB = {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "gpt"},
       "spec": {"numMachines": 2, "image": "example.com/test:1", "command": ["true"]}}


@pytest.fixture(scope="module", autouse=True)
def monitors(cluster):
    """The Prometheus Operator's kinds."""
    folder = parts.files(PROMETHEUS_OPERATOR) / "example/prometheus-operator-crd"
    for each in MONITORS:
        cluster.kubectl("apply", "--server-side", "-f",
                        folder / f"monitoring.coreos.com_{each}.yaml")
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")


@pytest.fixture
def restricted(cluster):
    """A namespace that admits nothing but what the restricted level allows."""
    with cluster.namespace("restricted") as name:
        cluster.kubectl("label", "namespace", name,
                        "pod-security.kubernetes.io/enforce=restricted")
        yield name


@pytest.fixture
def without_crd(cluster):
    """Other tests install it by hand, and Helm takes over nothing that it did not make."""
    def delete():
        cluster.kubectl("delete", "crd", CRD, "--ignore-not-found")
        cluster.kubectl("delete", "-f", RULES, "--ignore-not-found")

    delete()
    yield
    delete()


class Release:
    def __init__(self, cluster, namespace):
        self.cluster, self.namespace = cluster, namespace

    def helm(self, verb, *arguments, values=None):
        given = []
        if values is not None:
            file = self.cluster.folder / "values.yaml"
            file.write_text(yaml.safe_dump(values))
            given = ["--values", file]
        return self.cluster.helm(verb, "lockstep", *arguments, "--namespace", self.namespace,
                                 *given)

    def get(self, *arguments):
        return json.loads(self.cluster.kubectl("get", *arguments, "-o", "json"))

    def deployment(self):
        return self.get("deployment", "lockstep-operator", "-n", self.namespace)

    def size(self):
        """Of the Secret in which Helm keeps it."""
        secret = self.get("secret", "sh.helm.release.v1.lockstep.v1", "-n", self.namespace)
        return len(base64.b64decode(secret["data"]["release"]))

    def operators(self):
        return self.get("pods", "-n", self.namespace, "-l",
                        "app.kubernetes.io/component=operator")["items"]

    def job(self):
        """What becomes of a job when the operators are changed: nothing."""
        found = self.get("trainingjob", "gpt", "-n", self.namespace)["metadata"]
        return found["uid"], found["generation"]


def older(folder):
    """The chart as it was when the CustomResourceDefinition had no printer columns, and its rules were
    no policy."""
    copied = folder / "older"
    shutil.copytree(chart.CHART, copied)
    file = copied / "templates/crd.yaml"
    file.write_text("".join(line for line in file.read_text().splitlines(keepends=True)
                            if "rules.yaml" not in line))
    file = copied / "files/lockstep.dev_trainingjobs.yaml"
    crd = yaml.safe_load(file.read_text())
    del crd["spec"]["versions"][0]["additionalPrinterColumns"]
    file.write_text(yaml.safe_dump(crd, sort_keys=False))
    return copied


def test_a_release_is_installed_upgraded_rolled_back_and_uninstalled(
        cluster, restricted, without_crd, tmp_path):
    release = Release(cluster, restricted)
    values = chart.ALL | {"networkPolicy": {"enabled": True, "jobNamespaces": [restricted]}}
    release.helm("install", older(tmp_path), values=values)
    assert release.size() < MEBIBYTE / 2  # room for its dashboards to grow
    wait_until(lambda: len(release.operators()) == 2, "two pods to be admitted", PATIENCE, 0.1)
    wait_until(lambda: cluster.kubectl("apply", "-n", restricted, "-f", "-", input=json.dumps(JOB),
                                       check=False).returncode == 0,
               "TrainingJobs to be served", PATIENCE, 0.1)
    job = release.job()

    release.helm("upgrade", chart.CHART, values=values | {"replicas": 3})
    assert release.deployment()["spec"]["replicas"] == 3
    [version] = release.get("crd", CRD)["spec"]["versions"]
    assert [each["name"] for each in version["additionalPrinterColumns"]][0] == "State"
    assert release.job() == job

    release.helm("rollback", "1")
    assert release.deployment()["spec"]["replicas"] == 2
    # They are of the newer release's fields.
    assert cluster.kubectl("get", "-f", RULES, check=False).returncode != 0
    assert release.job() == job

    release.helm("uninstall")
    wait_until(lambda: not release.operators(), "the operators to be gone", PATIENCE, 0.1)
    assert release.job() == job

    # The same release takes over what it left.
    release.helm("install", chart.CHART, values={"crds": {"keep": False}})
    assert release.job() == job
    release.helm("uninstall")
    wait_until(lambda: cluster.kubectl("get", "crd", CRD, check=False).returncode != 0,
               "the CustomResourceDefinition to be gone", PATIENCE, 0.1)


def test_release_takes_over_what_was_applied_by_hand(cluster, restricted, without_crd):
    folder = chart.CHART.parents[1] / "crds"
    cluster.kubectl("apply", "-f", folder)
    try:
        release = Release(cluster, restricted)
        release.helm("install", chart.CHART, "--take-ownership", "--force-conflicts")
        owner = release.get("crd", CRD)["metadata"]["annotations"]
        assert owner["meta.helm.sh/release-name"] == "lockstep"
        release.helm("upgrade", chart.CHART)
        release.helm("uninstall")
    finally:
        cluster.kubectl("delete", "-f", folder, "--ignore-not-found")


def test_the_server_admits_every_object_under_the_restricted_level(
        cluster, restricted, without_crd):
    """helm test's pod and job, too, which an install doesn't make."""
    cluster.install_crd()
    cluster.kubectl("-n", restricted, "create", "serviceaccount", "lockstep-test")
    values = chart.ALL | {"networkPolicy": {"enabled": True, "jobNamespaces": [restricted]},
                          "crds": {"install": False}}
    text = chart.render(values, namespace=restricted)
    done = cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=text, check=False)
    assert done.returncode == 0, done.stderr
    assert "would violate" not in done.stderr
    assert len(done.stdout.splitlines()) == len(chart.documents(text))


@pytest.fixture
def second(cluster):
    with cluster.namespace("second") as name:
        yield name


def test_user_with_rights_in_only_two_namespaces_installs_the_chart_for_both(
        cluster, restricted, second, without_crd):
    cluster.install_crd()
    cluster.kubectl("-n", restricted, "create", "serviceaccount", "team")
    for each in (restricted, second):
        cluster.kubectl("-n", each, "create", "rolebinding", "team",
                        "--clusterrole=cluster-admin", f"--serviceaccount={restricted}:team")
    token = cluster.kubectl("-n", restricted, "create", "token", "team").strip()
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    kubeconfig = cluster.folder / "team"
    kubeconfig.write_text(yaml.safe_dump(config))
    release = Release(cluster, restricted)
    release.helm("install", chart.CHART, "--kubeconfig", kubeconfig,
                 values=chart.NAMESPACED | {"watchNamespaces": [restricted, second]})
    wait_until(lambda: len(release.operators()) == 2, "two pods to be admitted", PATIENCE, 0.1)
    [container] = release.deployment()["spec"]["template"]["spec"]["containers"]
    assert [each for each in container["args"] if "--namespace" in each] == [
        f"--namespace={restricted}", f"--namespace={second}"]

    def may(space):
        user = f"system:serviceaccount:{restricted}:lockstep-operator"
        return cluster.kubectl("auth", "can-i", "create", "pods", "--as", user, "-n", space,
                               check=False).returncode == 0

    # The server follows its roles as others do: not at once.
    wait_until(lambda: may(restricted) and may(second), "the Roles", PATIENCE, 0.2)
    assert not may("default")
    release.helm("upgrade", chart.CHART, "--kubeconfig", kubeconfig,
                 values=chart.NAMESPACED | {"watchNamespaces": [second]})
    wait_until(lambda: not may(restricted), "the Role to go", PATIENCE, 0.2)
    assert may(second)


def test_view_edit_and_admin_roles_cover_training_jobs(cluster, restricted, without_crd):
    release = Release(cluster, restricted)
    release.helm("install", chart.CHART)
    for role in ("view", "edit", "admin"):
        cluster.kubectl("-n", restricted, "create", "rolebinding", role, f"--clusterrole={role}",
                        f"--user={role}")

    def can(user, *verbs):
        return all(cluster.kubectl("auth", "can-i", verb, CRD, "-n", restricted, "--as", user,
                                   check=False).returncode == 0 for verb in verbs)

    # Each role is aggregated by itself.
    wait_until(lambda: can("view", "get", "list", "watch") and can("admin", "create")
               and can("edit", "get", "create", "delete", "patch", "update"),
               "the roles to be aggregated", PATIENCE, 0.2)
    assert not can("view", "create")
    release.helm("uninstall")


@pytest.mark.parametrize("shares", [0, 20])
def test_api_server_matches_operator_requests_and_lease_to_separate_flow_schemas(
        cluster, restricted, without_crd, shares):
    release = Release(cluster, restricted)
    release.helm("install", chart.CHART,
                 values={"flowSchema": {"enabled": True, "ownShares": shares}})
    token = cluster.kubectl("-n", restricted, "create", "token", "lockstep-operator").strip()
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{restricted}/leases/lockstep-operator"
    for path, name in (("/api/v1/pods", "lockstep-operator"), (lease, "lockstep-operator-lease")):
        uid = release.get("flowschema", name)["metadata"]["uid"]

        def headers(path=path):
            return cluster.kubectl("--token", token, "get", "--raw", path, "-v", "8",
                                   check=False).stderr

        wait_until(lambda uid=uid, said=headers: re.search(
            rf"X-Kubernetes-Pf-Flowschema-Uid: {uid}", said(), re.IGNORECASE),
            lambda said=headers: f"{name} to be followed: {said()[-2000:]}", PATIENCE, 0.5)
    made = [each for each in release.get("prioritylevelconfigurations")["items"]
            if each["metadata"]["name"] == "lockstep-operator"]
    assert [each["spec"]["limited"]["nominalConcurrencyShares"] for each in made] == [
        each for each in [shares] if each]
    release.helm("uninstall")
