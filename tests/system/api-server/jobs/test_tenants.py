"""What one tenant may make without harm to the jobs of others. Nobody runs the pods here."""

import json
import re

import pytest
import requests
from jobs import PATIENCE, Jobs, operator
from waiting import wait_until

# 1.2 MB in etcd; the API server writes each of them as six bytes of JSON.
LONG = "<" * 1_200_000


@pytest.fixture
def tenants(installed, namespace, tmp_path):
    """Jobs of two namespaces, without an operator yet: (tenant, neighbour)."""
    with installed.namespace() as other:
        yield tuple(Jobs(installed, name, None, tmp_path) for name in (namespace, other))


def operator_of(tenants, folder):
    spaces = ",".join(each.namespace for each in tenants)
    return operator(tenants[0].cluster.kubeconfig, folder, "--namespace", spaces,
                    "--system-namespace", tenants[0].namespace)


def big_pod(name, **spec):
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"lockstep.dev/job": "x"}},
            "spec": {"schedulerName": "nobody",
                     "containers": [{"name": "c", "image": "example.com/x:1", **spec}]}}


def wait_pods(jobs, name):
    wait_until(lambda: len(jobs.pods(name)) == 2,
               lambda: f"2 pods of {name}\n{jobs.operator_log()}", PATIENCE, 0.1)


def test_an_object_of_seven_megabytes_stops_no_watch_and_no_first_view(tenants, tmp_path):
    tenant, neighbour = tenants
    with operator_of(tenants, tmp_path):
        neighbour.apply("before", "true")
        wait_pods(neighbour, "before")
        # As it stands: kubectl's own JSON of it would be more than the server takes.
        tenant.kubectl("create", "--raw", f"/api/v1/namespaces/{tenant.namespace}/pods", "-f", "-",
                       input=json.dumps(big_pod("big", args=[LONG])))
        neighbour.apply("after", "true")
        wait_pods(neighbour, "after")
    with operator_of(tenants, tmp_path):
        neighbour.apply("again", "true")
        wait_pods(neighbour, "again")
        port = re.findall(r"health on port (\d+)", (tmp_path / "operator.log").read_text())[-1]
        ready = f"http://127.0.0.1:{port}/readyz"
        wait_until(lambda: requests.get(ready, timeout=60).text == "ok\n", ready, PATIENCE, 0.1)


def test_a_job_that_is_too_large_is_refused_with_the_reason(tenants, tmp_path):
    tenant, neighbour = tenants
    notes = {f"note{i}": "x" * 200_000 for i in range(3)}
    job = {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
           "metadata": {"name": "fat"},
           "spec": {"image": "i", "command": ["x"], "suspend": True,
                    "template": {"metadata": {"annotations": notes}}}}
    tenant.kubectl("create", "-f", "-", input=json.dumps(job))
    with operator_of(tenants, tmp_path):
        status = tenant.wait_state("fat", "Failed")
        assert "KiB are allowed" in status["reason"]
        neighbour.apply("gpt", "true")
        wait_pods(neighbour, "gpt")
