"""Operators of given namespaces: one of several, several beside each other, and two that want the
same one."""

import contextlib
import json
import re
import secrets

import pytest
import requests
from agent_kubelet import AgentKubelet
from jobs import PATIENCE, Jobs, operator
from waiting import holds_for, wait_until

UNTIL = 'while [ ! -e "{gate}" ]; do sleep 0.05; done'
# Claims last four times as long. An operator ends where the API server does not answer for two
# thirds of it.
LEASE = "--lease-duration", "6"
CLAIM = "lockstep-jobs"


@pytest.fixture
def place(installed, tmp_path):
    """Makes namespaces, with kubelets where they are asked for."""
    with contextlib.ExitStack() as stack:
        def make(name, runs=False):
            space = stack.enter_context(installed.namespace(name))
            folder = tmp_path / space
            folder.mkdir()
            kubelet = stack.enter_context(AgentKubelet(installed, space, folder)) if runs else None
            return Jobs(installed, space, kubelet, tmp_path)
        yield make


@pytest.fixture
def system(place):
    """The namespace of Leases and of the master key that all operators of a test share."""
    return place("system").namespace


@contextlib.contextmanager
def shard(jobs, system, name, *options):
    """An operator with a Lease and a log of its own, and where its log is."""
    folder = jobs.folder / name
    folder.mkdir(exist_ok=True)
    with operator(jobs.cluster.kubeconfig, folder, "--system-namespace", system, "--lease-name",
                  name, *options) as process:
        process.folder = folder
        yield process


def of(*jobs):
    return [option for each in jobs for option in ("--namespace", each.namespace)]


def log(process):
    return (process.folder / "operator.log").read_text()


def port(process, which):
    wait_until(lambda: f"{which} on port" in log(process), lambda: log(process), PATIENCE, 0.05)
    return re.findall(rf"{which} on port (\d+)", log(process))[-1]


def readiness(process):
    return requests.get(f"http://127.0.0.1:{port(process, 'health')}/readyz", timeout=60)


def writes(process):
    """Requests of this operator that change something, its Leases' aside."""
    page = requests.get(f"http://127.0.0.1:{port(process, 'metrics')}/metrics", timeout=60).text
    return sum(int(count) for labels, count in re.findall(
        r"^lockstep_operator_api_calls_total\{(.*)\} (\d+)$", page, re.MULTILINE)
        if 'verb="GET"' not in labels)


def wait_ended(cluster):
    """Jobs of earlier tests are gone, whose namespaces are being deleted: an operator of all
    namespaces would write of these, too."""
    def items(*arguments):
        return json.loads(cluster.kubectl("get", *arguments, "-o", "json"))["items"]

    def ended():
        leaving = {each["metadata"]["name"] for each in items("namespaces")
                   if each["status"]["phase"] == "Terminating"}
        return not leaving & {each["metadata"]["namespace"] for each in items("trainingjobs", "-A")}

    wait_until(ended, "the jobs of earlier tests to be gone", PATIENCE, 0.5)


def settled_writes(process):
    """Likewise, when what was under way has ended."""
    seen = [writes(process)]

    def settled():
        seen.append(writes(process))
        return seen[-1] == seen[-2]

    wait_until(settled, lambda: f"writes to end: {seen}", PATIENCE, 1)
    return seen[-1]


def claimed_by(jobs):
    found = jobs.kubectl("get", "lease", CLAIM, "--ignore-not-found", "-o", "json")
    return json.loads(found)["spec"]["holderIdentity"] if found else None


def take(jobs, seconds, lease=None):
    """A claim becomes somebody else's, for so long."""
    claim = {"spec": {"holderIdentity": "somebody else", "leaseDurationSeconds": seconds}}
    jobs.cluster.kubectl("patch", "lease", *(lease or ("-n", jobs.namespace, CLAIM)),
                         "--type=merge", "--patch", json.dumps(claim))


def wait_pods(jobs, name, process):
    wait_until(lambda: len(jobs.pods(name)) == 2, lambda: f"pods of {name}\n{log(process)}",
               PATIENCE, 0.1)


def wait_said(process, text):
    wait_until(lambda: text in log(process), lambda: f"{text}:\n{log(process)}", PATIENCE, 0.1)


def test_one_operator_runs_the_jobs_of_two_namespaces_and_leaves_a_third_alone(place, system):
    one, two, third = place("one", runs=True), place("two", runs=True), place("third")
    third.apply("gpt", "true")
    with shard(one, system, "both", *of(one, two)) as process:
        for each in (one, two):
            each.apply("gpt", "true")
        for each in (one, two):
            each.wait_state("gpt", "Succeeded")
            assert claimed_by(each) == f"{system}/both"
        assert readiness(process).text == "ok\n"
        assert not third.pods("gpt") and third.status("gpt") == {"observedGeneration": -1}
        assert claimed_by(third) is None


def test_killed_shard_does_not_affect_the_other_shard(place, system, tmp_path):
    one, two = place("one", runs=True), place("two", runs=True)
    gate = tmp_path / "gate"
    with shard(one, system, "first", *of(one), *LEASE) as first, \
            shard(two, system, "second", *of(two)):
        for each in (one, two):
            each.apply("gpt", UNTIL.format(gate=gate))
            each.wait_state("gpt", "Running")
        first.kill()
        before = one.status("gpt")
        # What takes an operator, where there is one.
        two.kubelet.process("gpt-1").kill()
        two.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running", "a new machine")
        assert one.status("gpt") == before
        gate.touch()
        two.wait_state("gpt", "Succeeded")
    with shard(one, system, "first", *of(one), *LEASE):
        one.wait_state("gpt", "Succeeded")


def test_second_operator_takes_over_a_namespace_only_after_the_first_is_killed(
        place, system, tmp_path):
    jobs = place("wanted", runs=True)
    gate = tmp_path / "gate"
    with shard(jobs, system, "first", *of(jobs), *LEASE) as first:
        wait_until(lambda: claimed_by(jobs) == f"{system}/first", lambda: log(first))
        with shard(jobs, system, "second", *of(jobs), *LEASE) as second:
            wait_said(second, f"another operator's, {system}/first, which holds Lease "
                              f"{jobs.namespace}/{CLAIM}")
            jobs.apply("gpt", UNTIL.format(gate=gate))
            jobs.wait_state("gpt", "Running")
            jobs.kubelet.process("gpt-1").kill()
            jobs.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running", "a new machine")
            assert writes(second) <= 1  # of the master key, if it came first
            first.kill()
            wait_until(lambda: claimed_by(jobs) == f"{system}/second", lambda: log(second),
                       PATIENCE)
            jobs.kubelet.process("gpt-0").kill()
            jobs.wait("gpt", lambda s: s["epoch"] == 3 and s["state"] == "Running", "another one")
            gate.touch()
            jobs.wait_state("gpt", "Succeeded")


def test_operator_that_loses_its_claim_on_a_namespace_stops_only_there(place, system):
    lost, kept = place("lost"), place("kept")
    with shard(lost, system, "one", *of(lost, kept), *LEASE) as process:
        lost.apply("before", "true")
        wait_pods(lost, "before", process)
        take(lost, seconds=3600)
        wait_said(process, f"namespace {lost.namespace}: no longer this operator's")
        lost.apply("after", "true")
        kept.apply("after", "true")
        wait_pods(kept, "after", process)
        assert not lost.pods("after") and process.poll() is None
        take(lost, seconds=1)
        wait_pods(lost, "after", process)


def test_operator_that_loses_its_claim_on_all_namespaces_creates_no_pods(place, system):
    jobs = place("jobs")
    with shard(jobs, system, "all", *LEASE) as process:
        jobs.apply("before", "true")
        wait_pods(jobs, "before", process)
        take(jobs, seconds=3600, lease=("-n", "kube-system", "lockstep-all-jobs"))
        wait_said(process, "all namespaces: no longer this operator's")
        jobs.apply("after", "true")
        holds_for(3, lambda: not jobs.pods("after"), "no pod of it")
        take(jobs, seconds=1, lease=("-n", "kube-system", "lockstep-all-jobs"))
        wait_pods(jobs, "after", process)


def test_operator_of_all_namespaces_ignores_the_namespace_of_another_operator(place, system):
    theirs, rest = place("theirs"), place("rest")
    wait_ended(rest.cluster)
    with shard(rest, system, "all", *LEASE) as all_others:
        theirs.apply("before", "true")
        wait_pods(theirs, "before", all_others)
        with shard(theirs, system, "shard", *of(theirs), *LEASE) as process:
            wait_said(all_others, f"namespace {theirs.namespace} belongs to {system}/shard")
            before = settled_writes(all_others)
            theirs.apply("gpt", "true")
            wait_pods(theirs, "gpt", process)
            assert writes(all_others) == before
            rest.apply("gpt", "true")
            wait_pods(rest, "gpt", all_others)
            assert len(theirs.pods("before")) == len(theirs.pods("gpt")) == 2
        wait_said(all_others, f"namespace {theirs.namespace} no longer belongs to {system}/shard")
        theirs.apply("after", "true")
        wait_pods(theirs, "after", all_others)


def test_second_operator_of_all_namespaces_takes_over_after_the_first_is_killed(place, system):
    jobs = place("jobs")
    with shard(jobs, system, "first", *LEASE) as first:
        jobs.apply("before", "true")
        wait_pods(jobs, "before", first)
        with shard(jobs, system, "second", *LEASE) as second:
            wait_said(second, f"all namespaces: another operator's, {system}/first")
            first.kill()
            jobs.apply("after", "true")
            wait_pods(jobs, "after", second)


def account_of(jobs, *spaces):
    """A kubeconfig with a service account's token that may do everything in these namespaces."""
    jobs.kubectl("create", "serviceaccount", "operator")
    for each in spaces:
        allow(jobs, each)
    config = json.loads(jobs.cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": jobs.kubectl("create", "token", "operator").strip()}
    file = jobs.folder / "kubeconfig"
    file.write_text(json.dumps(config))
    return file


def allow(jobs, space):
    jobs.cluster.kubectl("-n", space, "create", "rolebinding", "operator",
                         "--clusterrole=cluster-admin",
                         f"--serviceaccount={jobs.namespace}:operator")


def test_operator_names_an_unreadable_namespace_and_serves_the_other_namespace(place, tmp_path):
    given, refused = place("given"), place("refused")
    config = account_of(given, given.namespace)
    with operator(config, tmp_path, *of(given, refused), "--system-namespace",
                  given.namespace) as process:
        process.folder = tmp_path
        for each in (given, refused):
            each.apply("gpt", "true")
        wait_pods(given, "gpt", process)
        wait_said(process, f"/namespaces/{refused.namespace}/pods: pods is forbidden")
        said = readiness(process)
        assert said.status_code == 503
        assert f"in namespace {refused.namespace}: " in said.text and "forbidden" in said.text
        assert f"in namespace {given.namespace}: " not in said.text
        assert not refused.pods("gpt")
        allow(given, refused.namespace)
        wait_pods(refused, "gpt", process)
        wait_until(lambda: readiness(process).status_code == 200, lambda: readiness(process).text)


def test_a_namespace_may_be_made_and_deleted_while_its_operator_runs(place, system, tmp_path):
    stays = place("stays", runs=True)
    comes = Jobs(stays.cluster, f"comes-{secrets.token_hex(4)}", None, tmp_path)
    gate = tmp_path / "gate"
    with shard(stays, system, "both", *of(stays, comes), *LEASE) as process:
        stays.apply("gpt", UNTIL.format(gate=gate))
        stays.wait_state("gpt", "Running")
        wait_said(process, f"namespace {comes.namespace}: the Lease {comes.namespace}/{CLAIM} "
                           "cannot be written")
        for name in ("first", "second"):
            comes.cluster.kubectl("create", "namespace", comes.namespace)
            comes.apply(name, "true")
            wait_pods(comes, name, process)
            comes.cluster.kubectl("delete", "namespace", comes.namespace, "--wait=false")
            wait_until(lambda: comes.cluster.kubectl("get", "namespace", comes.namespace,
                                                     check=False).returncode != 0,
                       "the namespace to go", PATIENCE, 0.2)
        stays.kubelet.process("gpt-1").kill()
        stays.wait("gpt", lambda s: s["epoch"] == 2 and s["state"] == "Running", "a new machine")
        gate.touch()
        stays.wait_state("gpt", "Succeeded")
        assert process.poll() is None
