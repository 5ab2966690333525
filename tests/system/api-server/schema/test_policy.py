"""crds/policy.yaml: whose TrainingJobs are taken, and what of a node they may ask for."""

import json

import pytest
from documents import a_command, job
from paths import ROOT
from waiting import wait_until

POLICY = ROOT / "crds/policy.yaml"
REACHES = {
    "hostNetwork": {"hostNetwork": True},
    "hostPID": {"hostPID": True},
    "hostIPC": {"hostIPC": True},
    "hostPort": {"containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 1}]}]},
    "hostPath": {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]},
    "privileged": {"initContainers": [{"name": "a", "securityContext": {"privileged": True}}]},
}


class Users:
    """Who asks, by impersonation: `maker` may make jobs, pods and Services, `clerk` jobs alone,
    `baker` jobs and pods.
    """

    def __init__(self, cluster, namespace):
        self._cluster = cluster
        self.namespace = namespace
        self._run("create", "role", "jobs", "--verb=*", "--resource=trainingjobs.lockstep.dev,"
                  "trainingjobs.lockstep.dev/scale")
        self._run("create", "role", "pods", "--verb=create", "--resource=pods")
        self._run("create", "role", "services", "--verb=create", "--resource=services")
        for role, user in (("jobs", "maker"), ("jobs", "clerk"), ("jobs", "baker"),
                           ("pods", "maker"), ("pods", "baker"), ("services", "maker")):
            self._run("create", "rolebinding", f"{role}-{user}", f"--role={role}",
                      f"--user={user}")

    def _run(self, *arguments):
        return self._cluster.kubectl("-n", self.namespace, *arguments)

    def apply(self, user, document, *more):
        return self._cluster.kubectl("-n", self.namespace, "apply", "--as", user, "-f", "-", *more,
                                     input=json.dumps(document), check=False)

    def scale(self, user, name, machines):
        return self._cluster.kubectl("-n", self.namespace, "scale", "--as", user, "trainingjob",
                                     name, f"--replicas={machines}", check=False)

    def allow(self, field):
        self._cluster.kubectl("label", "namespace", self.namespace,
                              f"allow.lockstep.dev/{field}=true")

    def is_refused(self, user, document):
        return "Forbidden" in self.apply(user, document, "--dry-run=server").stderr


@pytest.fixture(scope="module")
def validated(installed):
    """The cluster, with the policy in it."""
    installed.kubectl("apply", "-f", POLICY)
    yield installed
    installed.kubectl("delete", "-f", POLICY)


@pytest.fixture
def users(validated, namespace):
    made = Users(validated, namespace)
    # A new policy is in force a little later.
    wait_until(lambda: made.is_refused("clerk", job(a_command())), "the policy to be in force", 120)
    return made


def _reaching(field):
    return job(a_command(template={"spec": REACHES[field]}), name=field.lower())


def test_user_without_right_to_create_pods_cannot_create_jobs(users):
    refused = users.apply("clerk", job(a_command()))
    assert "you need the right to create pods in namespace" in refused.stderr
    assert users.apply("maker", job(a_command())).returncode == 0


def test_user_without_right_to_create_services_cannot_create_jobs(users):
    refused = users.apply("baker", job(a_command()))
    assert "you need the right to create services in namespace" in refused.stderr
    assert users.apply("maker", job(a_command())).returncode == 0
    assert users.apply("baker", job(a_command(numMachines=3))).returncode == 0


def test_scaling_a_job_requires_the_right_to_create_pods(users):
    document = job(a_command())
    assert users.apply("maker", document).returncode == 0
    name = document["metadata"]["name"]
    refused = users.scale("clerk", name, 5)
    assert "you need the right to create pods in namespace" in refused.stderr
    assert users.scale("maker", name, 5).returncode == 0


def test_spec_change_requires_right_to_create_pods_and_label_change_does_not(users):
    assert users.apply("maker", job(a_command())).returncode == 0
    labelled = job(a_command())
    labelled["metadata"]["labels"] = {"a": "b"}
    assert users.apply("clerk", labelled).returncode == 0
    refused = users.apply("clerk", job(a_command(suspend=True)))
    assert "you need the right to create pods" in refused.stderr


@pytest.mark.parametrize("field", REACHES)
def test_pod_field_that_reaches_the_node_requires_a_label_on_the_namespace(users, field):
    refused = users.apply("maker", _reaching(field))
    assert f"allow.lockstep.dev/{field}=true" in refused.stderr
    users.allow(field)
    wait_until(lambda: not users.is_refused("maker", _reaching(field)), "the label to count", 120)
    assert users.apply("maker", _reaching(field)).returncode == 0
    for other in REACHES:
        assert other == field or users.is_refused("maker", _reaching(other))
