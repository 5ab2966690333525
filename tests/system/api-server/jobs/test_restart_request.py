"""`kubectl lockstep restart` of a job on a real API server, with the real operator and agents."""

import json
import os
import signal
import subprocess

from tls import binary
from waiting import wait_until

UNTIL = 'while [ ! -e "{gate}" ]; do sleep 0.05; done'


def test_restart_begins_a_generation_on_the_same_pods_once_and_uncharged(jobs, tmp_path):
    def restart(name, *arguments):
        return subprocess.run(
            [binary("kubectl-lockstep"), "restart", "-n", jobs.namespace, name, *arguments],
            env={**os.environ, "KUBECONFIG": str(jobs.cluster.kubeconfig), "USER": "alice"},
            capture_output=True, text=True, timeout=60, check=False)

    def is_done(generation):
        status = jobs.status("gpt")
        done = status.get("restart", {}).get("done")
        return status if done and status["gangGeneration"] == generation and \
            status["state"] == "Running" else None

    gate = tmp_path / "gate"
    jobs.apply("gpt", UNTIL.format(gate=gate))
    jobs.wait_state("gpt", "Running")
    pods = jobs.pods("gpt")
    done = restart("gpt", "--reason", "new rate")
    assert done.returncode == 0 and "trainingjob gpt" in done.stdout, done.stderr
    status = wait_until(lambda: is_done("1-2"), lambda: jobs.status("gpt"), 60, 0.1)
    assert status["restart"]["requestedBy"] == "alice"
    assert status["history"][-1]["reason"] == "restarted on request of alice: new rate"
    assert status["restarts"] == {"total": 1, "application": 0, "infrastructure": 0, "stopped": 1}
    assert status["counters"]["stops"] == 1 and "processFailures" not in status["counters"]

    os.kill(jobs.operator.pid, signal.SIGSTOP)  # nobody hears of the second request yet
    assert restart("gpt").returncode == 0
    os.kill(jobs.operator.pid, signal.SIGCONT)
    wait_until(lambda: is_done("1-3"), lambda: jobs.status("gpt"), 60, 0.1)
    assert jobs.pods("gpt") == pods
    spec = json.loads(jobs.kubectl("get", "tj", "gpt", "-o", "json"))["spec"]
    assert "reason" not in spec["restartRequest"], "nothing of an earlier request stays"
    gate.touch()
    jobs.wait_state("gpt", "Succeeded")
    events = json.loads(jobs.kubectl("get", "events", "-o", "json"))["items"]
    assert "RestartRequested" in {event["reason"] for event in events}
    done = restart("gpt")
    assert done.returncode == 1 and "has ended (Succeeded)" in done.stderr
