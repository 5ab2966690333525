"""What of a TrainingJob may change, and when: real updates, with the message when not."""

import pytest
import schema_walk
from documents import a_command, a_trainer, job
from validators import Verdict, errors_of

ALWAYS = {"suspend", "numMachines", "failurePolicy", "health", "activeDeadlineSeconds",
          "ttlSecondsAfterFinished", "spareMachines", "restartRequest"}
NEVER = {"processesPerMachine"}
CHANGES = {
    "numMachines": 2, "processesPerMachine": 2, "image": "other", "command": ["other"],
    "args": ["other"], "workingDir": "/other",
    "env": [{"name": "OTHER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "envFrom": [{"secretRef": {"name": "other"}}], "imagePullSecrets": [{"name": "other"}],
    "launch": "PerMachine", "framework": "None", "mpi": {"start": "Pmi"}, "prestart": "Always",
    "prestartExclude": ["other"], "template": {"spec": {"nodeSelector": {"a": "b"}}},
    "resourcesPerProcess": {"cpu": 2}, "resourcesPerMachine": {"rdma/hca": 2},
    "sharedMemory": "1Gi",
    "preflight": {"enabled": True},
    "topology": {"bind": "None"}, "placement": {"onePerNode": "None"}, "spareMachines": 1,
    "network": {"hostnames": False}, "scheduling": {"gang": "Coscheduling"}, "elastic": {},
    "failurePolicy": {"maxRestarts": 7}, "successPolicy": "Machine0",
    "roles": [{"name": "other"}], "successRole": "",
    "checkpoint": {"resume": "Never"}, "gracePeriod": "1m",
    "health": {"hangTimeout": "1m"}, "progress": {"from": "Output"}, "logs": {"format": "Json"}, "suspend": True,
    "restartRequest": {"id": "other"}, "sync": {},
    "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 60, "cleanPodPolicy": "All",
    "priorityClassName": "other", "schedulerName": "other", "managedBy": "other.dev/operator",
}
OF_TRAINER = {"steps": 7, "modelShape": {"layers": 2, "heads": 2, "width": 64, "vocabulary": 256},
              "data": ["other"], "servers": [0]}


class Jobs:
    """A job that is there, and what becomes of a change to it."""

    def __init__(self, server):
        self._server = server
        self.told = set()  # (field, message) of refusals
        self._names = []

    def make(self, name, spec):
        status, answer = self._server.request("POST", body=job(spec, name=name))
        assert status == 201, answer
        self._names.append(name)
        return name

    def close(self):
        for name in self._names:
            self._server.request("DELETE", f"/{name}", query="")

    def patch(self, name, spec, dry="dryRun=All"):
        """None, or why it was refused."""
        status, answer = self._server.request("PATCH", f"/{name}", {"spec": spec},
                                              f"fieldValidation=Strict&{dry}", "merge-patch+json")
        if status == 200:
            return None
        told = Verdict(errors_of(answer))
        self.told |= set(told.errors)
        return str(told)

    def suspend(self, name):
        assert self.patch(name, {"suspend": True}, dry="") is None
        status, answer = self._server.request("PATCH", f"/{name}/status",
                                              {"status": {"state": "Suspended"}}, "",
                                              "merge-patch+json")
        assert status == 200, answer


@pytest.fixture
def jobs(server):
    made = Jobs(server)
    yield made
    made.close()


def test_list_of_changes_covers_every_spec_field(whole):
    spec = whole["properties"]["spec"]
    assert set(spec["properties"]) == {*CHANGES, "trainer"}


@pytest.mark.parametrize("field", CHANGES)
def test_a_field_changes_at_any_time_or_once_suspended_or_never(jobs, field):
    name = jobs.make("changes-" + field.lower(), a_command())
    change = {field: CHANGES[field]}
    refused = jobs.patch(name, change)
    if field in ALWAYS:
        assert refused is None
    elif field in NEVER:
        assert "make a new job" in refused
    else:
        assert f"spec.{field}" in refused and "suspend first" in refused
        assert "suspend first" in jobs.patch(name, {**change, "suspend": True})
    jobs.suspend(name)
    refused = jobs.patch(name, change)
    assert (refused is not None) == (field in NEVER)
    # Resumed with the change, as one that queues jobs does.
    refused = jobs.patch(name, {**change, "suspend": field == "suspend"})
    assert (refused is not None) == (field in NEVER)


def test_image_change_is_rejected_until_job_state_is_suspended(jobs):
    name = jobs.make("pods", a_command(suspend=True))
    assert "suspend first" in jobs.patch(name, {"image": "other"})


@pytest.mark.parametrize("field", OF_TRAINER)
def test_the_trainer_changes_once_suspended(jobs, field):
    name = jobs.make("trainer-" + field.lower(), a_trainer(steps=8, model="nano"))
    assert jobs.patch(name, {"failurePolicy": {"maxRestarts": 9}}) is None
    if field != "servers":
        assert "suspend first" in jobs.patch(name, {"trainer": {field: OF_TRAINER[field]}})
    jobs.suspend(name)
    assert jobs.patch(name, {"trainer": {field: OF_TRAINER[field]}}) is None


def test_the_claim_never_changes(jobs):
    name = jobs.make("claim", a_command(checkpoint={"claim": "a", "path": "/a"}))
    jobs.suspend(name)
    assert "make a new job" in jobs.patch(name, {"checkpoint": {"claim": "b"}})
    assert "make a new job" in jobs.patch(name, {"checkpoint": {"claim": None}})
    assert jobs.patch(name, {"checkpoint": {"path": "/b"}}) is None


def test_the_url_of_the_object_store_never_changes_but_its_secret_may(jobs):
    store = {"url": "s3://bucket/a", "secret": "a", "memory": {"size": "1Gi"}}
    name = jobs.make("url", a_command(checkpoint=store))
    jobs.suspend(name)
    assert "make a new job" in jobs.patch(name, {"checkpoint": {"url": "s3://bucket/b"}})
    assert "make a new job" in jobs.patch(name, {"checkpoint": {"url": None, "secret": None}})
    assert jobs.patch(name, {"checkpoint": {"secret": "b", "keep": 5, "keepEvery": "24h", "uploadBandwidth": "1Mi"}}) is None


def test_every_rule_about_changes_rejects_a_change(whole, jobs):
    name = jobs.make("all", a_command(checkpoint={"claim": "a", "path": "/a"}))
    for field, value in CHANGES.items():
        jobs.patch(name, {field: value})
    jobs.patch(name, {"checkpoint": {"claim": "b"}})
    jobs.patch(name, {"checkpoint": {"url": "s3://bucket/b"}})
    jobs.patch(name, {"image": None, "command": None, **a_trainer()})
    rules = [rule for rule in schema_walk.rules(whole) if rule.about_changes]
    told = {(schema_walk.normal(field), message) for field, message in jobs.told}
    missing = [str(rule) for rule in rules if not any(rule.is_told_by(*each) for each in told)]
    print(f"\n{len(rules)} rules about changes, {len(missing)} not covered", *missing, sep="\n")
    assert not missing
