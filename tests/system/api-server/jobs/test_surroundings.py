"""What the operator finds around it: tokens that change, a Lease that is somebody else's, a
namespace that goes away. Nobody runs the pods here."""

import json
import re
import secrets
import time

import pytest
import requests
from jobs import PATIENCE, Jobs, operator
from paths import ROOT
from waiting import holds_for, wait_until

DOCS = ROOT / "docs/reference/metrics.md"
LEASE_LOST = 1  # the operator's exit code
HOLD = "test.lockstep.dev/hold"


@pytest.fixture
def around(installed, namespace, tmp_path):
    """Jobs of a namespace, without an operator yet."""
    return Jobs(installed, namespace, None, tmp_path)


def wait_pods(jobs, name, count=2):
    wait_until(lambda: len(jobs.pods(name)) == count,
               lambda: f"{count} pods of {name}\n{jobs.operator_log()}", PATIENCE, 0.1)


def of_namespace(namespace):
    return "--namespace", namespace, "--system-namespace", namespace


def scrape(jobs):
    port = re.search(r"metrics on port (\d+)", (jobs.folder / "operator.log").read_text())[1]
    return requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text


# ---- a scraper ----

def shown(page):
    """{(name, type, labels...)}"""
    labels = {}
    for name, listed in re.findall(r"^(\w+?)(?:_bucket|_sum|_count)?(?:{(.*)})? \S+$", page, re.M):
        labels.setdefault(name, set()).update(set(re.findall(r'(\w+)="', listed)) - {"le"})
    return {(name, kind, *sorted(labels[name]))
            for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M)}


def test_operator_exports_exactly_the_documented_metrics(around, tmp_path):
    documented = {(name, kind, *sorted(listed.replace(",", " ").split()))
                  for name, kind, listed in re.findall(
                      r"^\| `(lockstep_operator_\w+)` \| (\w+) \| (.*?) ?\|", DOCS.read_text(), re.M)
                  if name != "lockstep_operator_node_evidence_total"}  # no gang has trouble here
    with operator(around.cluster.kubeconfig, tmp_path, *of_namespace(around.namespace)):
        around.apply("gpt", "true")
        wait_pods(around, "gpt")
        # Some appear with what they count for the first time.
        wait_until(lambda: shown(scrape(around)) == documented,
                   lambda: f"not as documented: {shown(scrape(around)) ^ documented}")


# ---- a token ----

def token_of(jobs, secret):
    """A token of the operator's account that is good for as long as a Secret is there."""
    jobs.kubectl("create", "secret", "generic", secret)
    return jobs.kubectl("create", "token", "operator", "--bound-object-kind", "Secret",
                        "--bound-object-name", secret).strip()


def test_operator_reads_a_rotated_token_again(around, tmp_path):
    around.kubectl("create", "serviceaccount", "operator")
    around.kubectl("create", "rolebinding", "operator", "--clusterrole=cluster-admin",
                   f"--serviceaccount={around.namespace}:operator")
    first, file = token_of(around, "first"), tmp_path / "token"
    file.write_text(first)
    config = json.loads(around.cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": str(file)}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    with operator(tmp_path / "kubeconfig", tmp_path, *of_namespace(around.namespace)) as process:
        around.apply("before", "true")
        wait_pods(around, "before")
        file.write_text(token_of(around, "second"))
        around.kubectl("delete", "secret", "first")
        wait_until(lambda: "Unauthorized" in around.kubectl(
            "--token", first, "get", "pods", check=False).stderr, "the first token to be refused")
        around.apply("after", "true")
        wait_pods(around, "after")
        assert process.poll() is None


# ---- a Lease ----

def lease(holder, seconds):
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "lockstep-operator"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds,
                     "acquireTime": now, "renewTime": now, "leaseTransitions": 7}}


def test_operator_waits_until_the_lease_of_another_holder_expires(around, tmp_path):
    began = time.monotonic()
    around.kubectl("create", "-f", "-", input=json.dumps(lease("a stranger", 10)))
    around.apply("gpt", "true")
    with operator(around.cluster.kubeconfig, tmp_path, *of_namespace(around.namespace)):
        wait_pods(around, "gpt")
    assert time.monotonic() - began > 10
    taken = json.loads(around.kubectl("get", "lease", "lockstep-operator", "-o", "json"))["spec"]
    assert taken["leaseTransitions"] == 8


def test_operator_exits_on_a_lost_lease_and_a_standby_creates_no_pods(around, tmp_path):
    with operator(around.cluster.kubeconfig, tmp_path, *of_namespace(around.namespace)) as process:
        around.apply("before", "true")
        wait_pods(around, "before")
        around.kubectl("patch", "lease", "lockstep-operator", "--type=merge", "--patch",
                       json.dumps({"spec": lease("a stranger", 3600)["spec"]}))
        assert process.wait(PATIENCE) == LEASE_LOST
    around.apply("after", "true")
    with operator(around.cluster.kubeconfig, tmp_path, *of_namespace(around.namespace)) as process:
        holds_for(3, lambda: process.poll() is None and not around.pods("after"),
                  "a standby that waits: " + around.operator_log())


# ---- a namespace ----

def writes(jobs):
    """How many requests that change something the operator has made so far, the Lease's aside."""
    return sum(int(count) for labels, count in re.findall(
        r"^lockstep_operator_api_calls_total\{(.*)\} (\d+)$", scrape(jobs), re.MULTILINE)
        if 'verb="GET"' not in labels)


def is_quiet(jobs):
    before = writes(jobs)
    time.sleep(3)
    return writes(jobs) == before


def hold(jobs, resource, on):
    jobs.kubectl("patch", resource, "--type=merge", "--patch",
                 json.dumps({"metadata": {"finalizers": [HOLD] if on else None}}))


def test_deleting_a_namespace_removes_its_jobs_and_leaves_other_jobs_alone(around, tmp_path):
    leaving = Jobs(around.cluster, f"leaving-{secrets.token_hex(4)}", None, tmp_path)
    around.cluster.kubectl("create", "namespace", leaving.namespace)
    with operator(around.cluster.kubeconfig, tmp_path, "--system-namespace",
                  around.namespace) as process:
        for name in ("gone", "held"):
            leaving.apply(name, "true")
            wait_pods(leaving, name)
        hold(leaving, "tj/held", True)
        around.cluster.kubectl("delete", "namespace", leaving.namespace, "--wait=false")
        wait_until(lambda: leaving.kubectl("get", "tj,pods,services", "-o", "name").split()
                   == ["trainingjob.lockstep.dev/held"], "all but one job to go", PATIENCE, 0.1)
        around.apply("other", "true")
        wait_pods(around, "other")
        wait_until(lambda: is_quiet(around), lambda: "no more writes\n" + around.operator_log(),
                   PATIENCE)
        assert not leaving.pods("held")
        hold(leaving, "tj/held", False)
        wait_until(lambda: around.cluster.kubectl("get", "namespace", leaving.namespace,
                                                  check=False).returncode != 0,
                   "the namespace to go", PATIENCE, 0.1)
        assert process.poll() is None
