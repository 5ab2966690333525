"""lockstep.submit() and lockstep.attach() on a real API server."""

import threading

import lockstep
import pytest
import yaml
from kubelet_logs import KubeletLogs
from kubernetes.client import CustomObjectsApi
from proxy import Proxy
from waiting import wait_until

PATIENCE = 120
UNTIL = 'echo "rank $RANK"; while [ ! -e "{gate}" ]; do sleep 0.05; done'


def job(command, name="gpt", **fields):
    return lockstep.Job(name, machines=2, processes=2, framework="None", image="example.com/test:1",
                        command=["sh", "-c", command], scheduler_name="nobody",
                        topology=lockstep.Topology(bind="None"), **fields)


def test_a_job_is_submitted_suspended_resumed_and_succeeds(kubelet, there, tmp_path):
    gate = tmp_path / "gate"
    run = lockstep.submit(job(UNTIL.format(gate=gate)), **there)
    wait_until(lambda: run.state == "Running", lambda: repr(run.status), PATIENCE)
    assert "job gpt: Running, 2/2 machines" in repr(run)
    run.restart(reason="from Python")
    wait_until(lambda: run.status.restart and run.status.restart.done, lambda: repr(run.status),
               PATIENCE)
    assert run.status.history[-1].reason.endswith(": from Python")
    run.suspend()
    wait_until(lambda: run.state == "Suspended", lambda: repr(run.status), PATIENCE)
    gate.touch()
    same = lockstep.attach("gpt", **there)
    assert same.uid == run.uid and same.job.command == run.job.command and same.job.suspend
    same.resume()
    status = run.wait(timeout=PATIENCE)
    assert status.state == "Succeeded" and status.verdict.exit_code == 0
    wait_until(lambda: {"Resumed", "Succeeded"} <= {event.reason for event in run.events()},
               lambda: str(run.events()), PATIENCE)
    with pytest.raises(lockstep.Unsupported, match="has ended"):
        run.suspend()
    run.delete(timeout=PATIENCE)
    with pytest.raises(lockstep.NotFound):
        run.status


def test_a_failure_carries_the_root_cause(kubelet, there):
    failing = 'if [ "$RANK" = 3 ]; then echo "no such file: x" >&2; exit 9; fi; sleep 300'
    run = lockstep.submit(job(failing, failure_policy=lockstep.FailurePolicy(max_restarts=0)),
                          **there)
    with pytest.raises(lockstep.JobFailed) as caught:
        run.wait(timeout=PATIENCE)
    error = caught.value
    assert (error.rank, error.machine, error.exit_code) == (3, 1, 9)
    assert "rank 3 on machine 1 exited with code 9" in str(error)
    assert str(error).endswith("| no such file: x")


def test_a_job_is_scaled_and_leaving_the_block_deletes_it(there, installed):
    with lockstep.submit(job("true"), **there) as run:
        run.scale(3)
        assert run.job.machines == 3 and lockstep.attach("gpt", **there).job.machines == 3
        with pytest.raises(lockstep.JobInvalid, match="machines: must be 1 to 4096, not 0"):
            run.scale(0)
        with pytest.raises(lockstep.WaitTimeout, match="the job continues"):
            run.wait(timeout=0.2)
    with pytest.raises(lockstep.NotFound, match='"gpt" not found'):
        lockstep.attach("gpt", **there)


def test_a_job_that_is_deleted_and_replaced_ends_the_wait(there):
    run = lockstep.submit(job("true"), **there)
    threading.Timer(0.5, lambda: lockstep.attach("gpt", **there).delete()).start()
    with pytest.raises(lockstep.JobStopped, match="was deleted before it ended"):
        run.wait(timeout=PATIENCE)
    lockstep.submit(job("true"), **there)
    with pytest.raises(lockstep.NotFound, match="another job has its name now"):
        run.status
    assert "another job has its name now" in repr(run)


def test_what_the_api_server_and_the_rules_refuse_is_said(there, tmp_path):
    lockstep.submit(job("true"), **there)
    with pytest.raises(lockstep.ClusterError, match='"gpt" already exists'):
        lockstep.submit(job("true"), **there)
    with pytest.raises(lockstep.JobInvalid, match="spec.image: is missing"):
        lockstep.submit(lockstep.Job("gpt", command=["true"]), **there)
    with pytest.raises(lockstep.JobInvalid, match="is elsewhere, but namespace="):
        lockstep.submit(job("true", namespace="elsewhere"), **there)
    with pytest.raises(lockstep.ClusterError, match="kubeconfig"):
        lockstep.attach("gpt", kubeconfig=str(tmp_path / "none"))
    with open(there["kubeconfig"]) as text:
        config = yaml.safe_load(text)
    config["users"][0]["user"] = {"token": "wrong"}
    (tmp_path / "wrong").write_text(yaml.safe_dump(config))
    with pytest.raises(lockstep.ClusterError, match="Unauthorized"):
        lockstep.attach("gpt", kubeconfig=str(tmp_path / "wrong"))


def kubeconfig(there, file, server=None, namespace=None):
    """A copy of the kubeconfig with another server, or with a namespace in its context."""
    with open(there["kubeconfig"]) as text:
        config = yaml.safe_load(text)
    cluster = config["clusters"][0]["cluster"]
    cluster["server"] = server or cluster["server"]
    config["contexts"][0]["context"]["namespace"] = namespace or "default"
    file.write_text(yaml.safe_dump(config))
    return cluster["server"], config["contexts"][0]["name"]


def test_the_namespace_is_that_of_the_kubeconfigs_context(there, tmp_path):
    _, context = kubeconfig(there, tmp_path / "config", namespace=there["namespace"])
    lockstep.submit(job("true"), kubeconfig=str(tmp_path / "config"))
    run = lockstep.attach("gpt", kubeconfig=str(tmp_path / "config"), context=context)
    assert run.namespace == there["namespace"]
    with pytest.raises(lockstep.ClusterError, match="the kubeconfig cannot be used"):
        lockstep.attach("gpt", kubeconfig=str(tmp_path / "config"), context="other")


def test_an_api_server_that_gives_no_answer_is_an_error(there, tmp_path):
    kubeconfig(there, tmp_path / "config", server="https://127.0.0.1:1")
    with pytest.raises(lockstep.ClusterError, match="no answer from the API server"):
        lockstep.attach("gpt", kubeconfig=str(tmp_path / "config"))


def test_a_wait_goes_on_after_a_time_without_an_api_server(there, installed, tmp_path):
    server, _ = kubeconfig(there, tmp_path / "config")
    host, _, port = server.removeprefix("https://").partition(":")
    proxy = Proxy(("127.0.0.1", 0), (host, int(port)))
    kubeconfig(there, tmp_path / "config", server=f"https://{proxy.address}")
    lockstep.submit(job("true"), **there)
    run = lockstep.attach("gpt", kubeconfig=str(tmp_path / "config"),
                          namespace=there["namespace"])
    ended = []
    waiting = threading.Thread(target=lambda: ended.append(run.wait(timeout=PATIENCE)))
    waiting.start()
    proxy.redirect(("127.0.0.1", 1))
    proxy.reset()
    wait_until(lambda: "no answer" in repr(run), lambda: repr(run), PATIENCE)
    set_state(there, installed, "Succeeded")
    proxy.redirect((host, int(port)))
    waiting.join(PATIENCE)
    assert [status.state for status in ended] == ["Succeeded"]
    proxy.close()


def set_state(there, installed, state):
    CustomObjectsApi(installed.client()).patch_namespaced_custom_object_status(
        "lockstep.dev", "v1alpha1", there["namespace"], "trainingjobs", "gpt",
        {"status": {"state": state, "epoch": 1}})


def test_logs_follow_a_rank_over_a_broken_connection_and_a_replacement(installed, there, tmp_path):
    run = lockstep.submit(job("true"), **there)
    set_state(there, installed, "Running")
    space = there["namespace"]

    def labels(machine, attempt):
        return {"lockstep.dev/job": "gpt", "lockstep.dev/machine": str(machine),
                "lockstep.dev/attempt": str(attempt)}

    with KubeletLogs.on(installed, tmp_path) as kubelet:
        for machine in range(2):
            kubelet.run(space, f"gpt-{machine}", labels(machine, 1))
        kubelet.write("gpt-0", "[m0 r0] zero")
        kubelet.write("gpt-1", "[m1 r3] one", "[m1 r2] of another")
        assert list(run.logs()) == ["[m0 r0] zero", "[m1 r3] one", "[m1 r2] of another"]
        assert list(run.logs(rank=2)) == ["of another"]
        lines = run.logs(rank=3, follow=True, timeout=PATIENCE)
        assert next(lines) == "one"
        kubelet.cut()
        kubelet.write("gpt-1", "[m1 r3] two")
        assert next(lines) == "two"
        kubelet.end(space, "gpt-1", exit_code=75)
        kubelet.create(space, "gpt-1-r2", labels(1, 2))
        assert list(run.logs()) == ["[m0 r0] zero"]
        kubelet.begin(space, "gpt-1-r2")
        kubelet.write("gpt-1-r2", "[m1 r3] three")
        assert next(lines) == "three"
        every = run.logs(follow=True, timeout=PATIENCE)
        assert {next(every), next(every)} == {"[m0 r0] zero", "[m1 r3] three"}
        every.close()
        with pytest.raises(lockstep.WaitTimeout):
            list(run.logs(machine=0, follow=True, timeout=0.5))
        set_state(there, installed, "Succeeded")
        kubelet.end(space, "gpt-1-r2", exit_code=0)
        assert list(lines) == []
    with pytest.raises(lockstep.NotFound, match="ranks 0 to 3, not 4"):
        run.logs(rank=4)
