"""checkpoint.url on a real API server, with the real operator, real agents and a real object store: no
volume, and credentials that ranks do not get."""

import json
import pathlib
import re

import pytest
from object_store import SECRET, ObjectStore
from processes import children, environment
from trainer_jobs import STEPS, job, weights, weights_alone
from waiting import wait_until


@pytest.fixture
def store(tmp_path):
    with ObjectStore(tmp_path / "store") as store:
        yield store


def test_suspended_job_goes_on_from_the_object_store_with_the_same_bits(jobs, store, tmp_path):
    literals = [f"--from-literal={name}={value}" for name, value in store.variables.items() if name != "PATH"]
    jobs.kubectl("create", "secret", "generic", "bucket", *literals)
    spec = json.loads(pathlib.Path(job(tmp_path, steps=STEPS, memoryEvery=5)).read_text())["spec"]
    jobs.apply("gpt", None, framework="Torch", trainer=spec["trainer"], checkpoint={
        "url": store.url, "secret": "bucket", "memory": {"size": "64Mi"}, "persistEvery": "1s", "keep": 2})
    wait_until(lambda: store.keys("commits"), lambda: f"a commit\n{jobs.status('gpt')}\n{jobs.operator_log()}", 90)
    ranks = [each for pid in children(jobs.kubelet.process("gpt-0").pid) if "RANK" in (each := environment(pid))]
    assert ranks and not any(name.startswith(("AWS_", "LOCKSTEP_STORE_")) for each in ranks for name in each)
    jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    jobs.wait_state("gpt", "Suspended")
    wait_until(lambda: not jobs.pods("gpt"), "all pods to go, and what their memory held")
    commits = store.keys("commits")
    assert len(commits) == 2
    newest = max(int(name.removesuffix(".json").rpartition("-")[2]) for name in commits)
    jobs.kubectl("patch", "tj", "gpt", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    jobs.wait_state("gpt", "Succeeded")
    log = jobs.kubelet.log("gpt-0-r2")
    assert [int(step) for step in re.findall(r"resuming at step (\d+)", log)] == [newest]
    assert weights(log) == weights_alone()
    assert SECRET not in jobs.kubectl("get", "tj,pods", "-o", "yaml") + log
