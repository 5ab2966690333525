"""`lockstep mcp` with jobs of a real API server, through the official SDK. No operator runs here, so
the test writes the status."""

import pytest
import yaml
from kubelet_logs import KubeletLogs
from kubernetes.client import CustomObjectsApi
from mcp_session import call, call_until, with_session

GROUP = ("lockstep.dev", "v1alpha1")
JOB = {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "gpt"},
       "spec": {"numMachines": 2, "processesPerMachine": 2, "image": "train:7",
                "command": ["python", "train.py"]}}
STATUS = {"state": "Failed", "reason": "rank 3 failed, and no restart is left", "epoch": 1,
          "replicas": 2, "machines": {"desired": 2, "ready": 0},
          "verdict": {"exitCode": 9, "cause": "RestartsExhausted"},
          "lastFailure": {"cause": "ProcessExit", "machine": 1, "rank": 3, "exitCode": 9,
                          "node": "node-b", "message": "rank 3 on machine 1 exited with code 9",
                          "stderr": "ValueError: no such file"}}


@pytest.fixture
def kubelet(installed, tmp_path):
    with KubeletLogs.on(installed, tmp_path) as kubelet:
        yield kubelet


def labels(machine):
    return {"lockstep.dev/job": "gpt", "lockstep.dev/machine": str(machine),
            "lockstep.dev/attempt": "1"}


def test_an_agent_submits_reads_suspends_and_deletes_a_job(installed, namespace, kubelet):
    jobs = CustomObjectsApi(installed.client())

    def job():
        return jobs.get_namespaced_custom_object(*GROUP, namespace, "trainingjobs", "gpt")

    async def look(session):
        text = yaml.safe_dump(JOB)
        assert "would be created" in await call(session, "submit", job=text, dry_run=True)
        assert "no trainingjobs" in await call(session, "list_jobs")
        assert "2 machines x 2 = world size 4" in await call(session, "submit", job=text)
        assert "there is a trainingjob gpt" in await call(session, "submit", error=True, job=text)
        assert "\ngpt " in await call(session, "list_jobs")
        await call(session, "suspend", name="gpt")
        assert job()["spec"]["suspend"]
        await call(session, "resume", name="gpt")
        assert not job()["spec"].get("suspend")
        await call(session, "restart", name="gpt", reason="a test")
        assert job()["spec"]["restartRequest"]["reason"] == "a test"
        for machine in range(2):
            kubelet.run(namespace, f"gpt-{machine}", labels(machine))
        kubelet.write("gpt-1", *(f"[m1 r{2 + line % 2}] line {line}" for line in range(20)))
        assert await call(session, "logs", name="gpt", rank=3, lines=2) == (
            "[m1 r3] line 17\n[m1 r3] line 19\n")
        assert await call(session, "logs", name="gpt", machine=1, lines=2) == (
            "[m1 r2] line 18\n[m1 r3] line 19\n")
        assert kubelet.requests[-1][1]["tailLines"] == "2"
        jobs.patch_namespaced_custom_object_status(*GROUP, namespace, "trainingjobs", "gpt",
                                                   {"status": STATUS})
        why = await call(session, "explain_failure", name="gpt")
        assert "root cause: ProcessExit, rank 3, machine 1, node node-b, exit code 9" in why
        assert "| ValueError: no such file" in why and "verdict: exit code 9" in why
        assert f"lockstep logs gpt -n {namespace} --rank 3" in why
        assert "Failed" in await call(session, "get_job", name="gpt")
        nearest = await call(session, "get_job", error=True, name="gtp")
        assert "gpt" in nearest and "exit code 3" in nearest
        await call(session, "delete", name="gpt")
        await call_until(session, lambda text: "no trainingjobs" in text, "list_jobs",
                         namespace=namespace)

    with_session(look, "--allow-write", "--kubeconfig", str(installed.kubeconfig), "-n", namespace)
