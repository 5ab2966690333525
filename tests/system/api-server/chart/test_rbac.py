"""The chart's roles grant what the operator needs, and nothing that it doesn't use: it runs with
them and through all that it does, and the API server's log says what it asked for."""

import asyncio
import contextlib
import json
import threading

import chart
import pytest
import yaml
from agent_kubelet import AgentKubelet
from api_client import ApiServer
from api_proxy import ApiProxy, Certificate, Fault
from jobs import PATIENCE, Jobs, operator
from rights import granted, requested
from waiting import wait_until

UNTIL = 'while [ ! -e "{gate}" ]; do sleep 0.05; done'
WATCHED = ["trainingjobs", "pods", "services", "endpointslices", "nodes", "leases"]


def doubts():
    """What makes the operator read again, rather than believe what it follows."""
    return [
        # A server that knows no lists as watches.
        *(Fault("WATCHLIST", resource, times=1000, do="answer", status=422)
          for resource in WATCHED),
        # Created, but who knows: it looks whose the object is that is there already.
        Fault("POST", "pods", "gpt-0", do="drop-after"),
        Fault("POST", "services", "gpt", do="drop-after"),
        Fault("POST", "endpointslices", "gpt-0", do="drop-after"),
        # The pods that it made do not come back to it.
        Fault("ADDED", "pods", "gpt-1", do="delay", seconds=8),
    ]


@contextlib.contextmanager
def proxied(cluster, folder, faults):
    """The certificate and the port of an ApiProxy in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE)

    try:
        certificate = Certificate(folder)
        proxy = ApiProxy(ApiServer.from_kubeconfig(cluster.kubeconfig), certificate, faults)
        run(proxy.open())
        yield certificate, proxy.port
        run(proxy.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Account:
    """The chart's service account in a cluster, with the roles that the chart gives it."""

    def __init__(self, cluster, release_namespace, values):
        self.cluster, self.namespace = cluster, release_namespace
        text = chart.render(values, release_namespace)
        self.manifest = yaml.safe_dump_all(chart.of_kind(
            text, "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"))
        # userRoles are for people.
        self.roles = [each for each in chart.of_kind(text, "Role", "ClusterRole")
                      if each["metadata"]["name"].startswith("lockstep-operator")]
        self.user = f"system:serviceaccount:{release_namespace}:lockstep-operator"

    def token(self):
        return self.cluster.kubectl("-n", self.namespace, "create", "token",
                                    "lockstep-operator").strip()

    def __enter__(self):
        self.cluster.kubectl("apply", "-f", "-", input=self.manifest)
        # The server follows its roles as others do: not at once.
        wait_until(self._is_granted, "the roles to be in force", PATIENCE, 0.2)
        return self

    def _is_granted(self):
        return all(self.cluster.kubectl(
            "auth", "can-i", right.verb, f"{right.resource}.{right.group}".rstrip("."), "--as",
            self.user, *(["-n", right.namespace] if right.namespace else ["-A"]),
            check=False).returncode == 0
            for right in {(each.namespace, each.group): each for each in granted(self.roles)
                          if not each.name and "/" not in each.resource}.values())

    def __exit__(self, *_):
        self.cluster.kubectl("delete", "-f", "-", input=self.manifest)


@pytest.fixture(params=["all namespaces", "one namespace"])
def account(request, cluster, namespace):
    cluster.install_crd()
    values = chart.NAMESPACED | {"watchNamespaces": [namespace]}
    with cluster.namespace("system") as system, Account(
            cluster, system, values if request.param == "one namespace" else None) as made:
        made.options = ["--system-namespace", system]
        if request.param == "one namespace":
            made.options += ["--namespace", namespace]
        yield made
        # The next operator has another identity, and would wait for a third of the lease.
        cluster.kubectl("-n", "kube-system", "delete", "lease", "lockstep-all-jobs",
                        "--ignore-not-found")


@pytest.fixture
def namespace(cluster):
    with cluster.namespace("jobs") as name:
        yield name


@contextlib.contextmanager
def jobs_under(account, namespace, folder, faults):
    with proxied(account.cluster, folder, faults) as (certificate, port), \
            AgentKubelet(account.cluster, namespace, folder, unlike=1) as kubelet:
        kubeconfig = folder / "kubeconfig"
        certificate.write_kubeconfig(kubeconfig, port, account.token(), account.namespace)
        with operator(kubeconfig, folder, *account.options):
            yield Jobs(account.cluster, namespace, kubelet, folder)


def select_pods(jobs):
    """Its Services become such as operators made before there were EndpointSlices of theirs."""
    machine0 = {"lockstep.dev/machine": "0", "lockstep.dev/attempt": "1"}
    for service, more in (("gpt", {}), ("gpt-coordinator", machine0)):
        selector = {"lockstep.dev/job": "gpt", **more}
        jobs.kubectl("patch", "service", service, "--type", "merge", "-p",
                     json.dumps({"spec": {"selector": selector}}))


def lead_a_life(jobs, folder):
    """One job that meets with everything that an operator does something about."""
    gate = folder / "gate"
    jobs.apply("gpt", UNTIL.format(gate=gate), ttlSecondsAfterFinished=0)
    jobs.wait_state("gpt", "Running")
    for epoch, victim in ((2, "gpt-1"), (3, "gpt-0"), (4, "gpt-0-r3")):
        if epoch == 3:
            select_pods(jobs)
        jobs.kubelet.process(victim).kill()
        jobs.wait("gpt", lambda s, epoch=epoch: s["epoch"] == epoch and s["state"] == "Running",
                  f"the replacement of {victim}")
    jobs.kubectl("patch", "tj", "gpt", "--type", "merge", "-p", '{"spec":{"suspend":true}}')
    jobs.wait_state("gpt", "Suspended")
    jobs.kubectl("patch", "tj", "gpt", "--type", "merge", "-p", '{"spec":{"suspend":false}}')
    jobs.wait_state("gpt", "Running")
    jobs.kubectl("scale", "tj", "gpt", "--replicas", "1")
    jobs.wait("gpt", lambda s: s["state"] == "Running" and s["ready"] == "1/1", "one machine")
    gate.touch()
    wait_until(lambda: not jobs.kubectl("get", "tj", "-o", "name"), "the job's TTL", PATIENCE, 0.2)


def test_every_right_is_used_and_none_is_missing(account, namespace, tmp_path):
    rights, log = set(granted(account.roles)), account.cluster.folder / "audit.log"
    with jobs_under(account, namespace, tmp_path, doubts()) as jobs:
        lead_a_life(jobs, tmp_path)

        def unused():
            asked = requested(log, account.user)
            return {(right.resource, right.verb) for right in rights
                    if not any(right.allows(each) for each in asked)}

        # That one the server itself looks for (the next test).
        wait_until(lambda: unused() == {("trainingjobs/finalizers", "update")},
                   lambda: f"all rights to be used; not yet: {unused()}", PATIENCE, 1)
    asked = requested(log, account.user)
    assert {each for each in asked if each.code in (401, 403)} == set()
    twice = {each for each in asked if sum(right.allows(each) for right in rights) != 1}
    assert twice == set(), "granted by two rules, or by none"


@pytest.mark.parametrize("account", ["all namespaces"], indirect=True)
def test_operator_reports_missing_right_on_finalizers_and_recovers(account, namespace, tmp_path):
    for role in account.roles:
        role["rules"] = [rule for rule in role["rules"]
                         if rule["resources"] != ["trainingjobs/finalizers"]]
    account.cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(account.roles))
    with jobs_under(account, namespace, tmp_path, []) as jobs:
        jobs.apply("gpt", "true")
        jobs.wait("gpt", lambda s: "blockOwnerDeletion" in s.get("reason", ""), "the reason")
        account.cluster.kubectl("apply", "-f", "-", input=account.manifest)
        jobs.wait_state("gpt", "Succeeded")
