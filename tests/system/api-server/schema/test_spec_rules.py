"""crds/rules.yaml: how the rules are told, and of which jobs. What each of them takes and refuses is
in test_equivalence.py and test_changes.py.
"""

import contextlib
import json

import pytest
from cluster import RULES
from documents import a_command, a_trainer, job
from validators import errors_of
from waiting import wait_until

WRONG = {"gracePeriod": "x", "health": {"hangTimeout": "y"}}


def test_api_server_reports_all_mistakes_at_once(installed, server):
    document = job(a_command(**WRONG))
    refused = installed.kubectl("-n", server.namespace, "create", "-f", "-", check=False,
                                input=json.dumps(document)).stderr
    assert refused.count("is not a duration; write numbers with units") == 2
    status, answer = server.request("POST", body=document)
    assert status == 422
    assert [path for path, _ in errors_of(answer)] == ["spec.gracePeriod", "spec.health.hangTimeout"]


def test_api_server_reports_that_a_job_has_more_than_10_mistakes(server):
    times = dict.fromkeys(("resetAfter", "restartGracePeriod", "machineLostAfter"), "x")
    labels = {"topologyKey": "?", "topologyLevels": ["?"]}
    status, answer = server.request("POST", body=job(a_command(
        failurePolicy=times, **WRONG, env=[{"name": "RANK"}, {"name": "a b"}], placement=labels,
        managedBy="x", schedulerName="X", priorityClassName="X")))
    assert status == 422 and "has more than 10 mistakes" in answer["message"]


@contextlib.contextmanager
def without_rules(cluster, server):
    """Jobs are as they could be made before there were such rules."""
    def make(spec):
        return server.request("POST", query="dryRun=All", body=job(spec))[0]

    cluster.kubectl("delete", "-f", RULES)
    try:
        wait_until(lambda: make(a_command(**WRONG)) == 201, "no rules", 120, 0.1)
        yield
    finally:
        cluster.kubectl("apply", "-f", RULES)
        wait_until(lambda: make(a_command(**WRONG)) == 422, "the rules", 120, 0.1)


@pytest.fixture(scope="module")
def older(installed, server):
    """Jobs that are no longer taken, by name."""
    jobs = {"old-coordinator": a_command(), "old-times": a_command(**WRONG)}
    with without_rules(installed, server):
        for name, spec in jobs.items():
            assert server.request("POST", body=job(spec, name=name))[0] == 201
    yield list(jobs)
    for name in jobs:
        server.request("DELETE", f"/{name}", query="")


def test_rules_ignore_unchanged_fields_of_an_older_job(server, older):
    for name in older:
        assert server.request("PATCH", f"/{name}/status", {"status": {"state": "Running"}}, "",
                              "merge-patch+json")[0] == 200
        status, answer = server.request("PATCH", f"/{name}", {"spec": {"suspend": True}}, "",
                                        "merge-patch+json")
        assert status == 200, answer
    status, answer = server.request("PATCH", "/old-times", {"spec": {"health": {"hangTimeout": "z"}}},
                                    "", "merge-patch+json")
    assert status == 422 and "spec.health.hangTimeout: is not a duration" in answer["message"]
    assert "spec.gracePeriod" not in answer["message"]


def test_api_server_rejects_scaling_to_a_size_that_breaks_a_rule(installed, server):
    name = "scaled"
    made = job({**a_trainer(globalBatchSize=16, microBatchSize=1), "numMachines": 2}, name=name)
    assert server.request("POST", body=made)[0] == 201

    def scale(machines):
        return installed.kubectl("-n", server.namespace, "scale", "trainingjob", name,
                                 f"--replicas={machines}", check=False)
    assert scale(4).returncode == 0
    assert "cannot be divided evenly among 3 processes" in scale(3).stderr
    server.request("DELETE", f"/{name}", query="")


def test_rules_evaluate_the_largest_job_within_the_cost_limit(server):
    """Its rules stay below what the API server lets a policy cost while it runs."""
    def variables(count):
        return [{"name": f"A{i}".ljust(253, "a"), "value": "b"} for i in range(count)]

    name = "a" * 50
    mounts = [{"name": f"{name}{i}", "mountPath": f"/{i}"} for i in range(256)]
    others = [{"name": f"{name}{i}", "image": "i", "volumeMounts": mounts, "env": variables(200),
               "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}} for i in range(7)]
    pod = {"containers": [{"name": "worker", "volumeMounts": mounts}, *others],
           "initContainers": [{**each, "name": f"init{i}"}
                              for i, each in enumerate([*others, *others])],
           "volumes": [{"name": f"{name}{i}", "emptyDir": {}} for i in range(256)]}
    rules = [{"stderr": f"^(Out|OUT) of memory {i}.*$", "exitCodes": list(range(1, 200))}
             for i in range(64)]
    spec = a_command(
        numMachines=16, processesPerMachine=64, env=variables(1024),
        args=["a" * 100] * 1024, failurePolicy={"rules": rules},
        imagePullSecrets=[{"name": f"{name}{i}"} for i in range(16)],
        prestartExclude=[f"a{i}".ljust(253, "a") for i in range(64)],
        resourcesPerProcess={"cpu": 1, "memory": "1Gi"},
        resourcesPerMachine={f"{name}.io/a{i}": 1 for i in range(32)},
        topology={"bind": "Map", "policy": "Required",
                  "map": [{"cpus": ",".join(f"{i}-{i}" for i in range(100)), "memory": "0-1"}] * 64},
        roles=[{"name": f"{name}{i}", "count": 64} for i in range(16)],
        template={"metadata": {"labels": {f"a/{i}": "b" for i in range(64)}}, "spec": pod})
    status, answer = server.request("POST", query="dryRun=All", body=job(spec))
    assert status == 201, answer["message"][:2000]
    spec["env"][-1]["name"] = "RANK"
    status, answer = server.request("POST", query="dryRun=All", body=job(spec))
    assert status == 422 and errors_of(answer) == [
        ("spec.env[].name", "remove it: Lockstep sets it for every process")]
