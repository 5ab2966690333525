"""Lockstep's operator for arm64, by qemu-user, with a real API server and agents of this machine.

qemu-user can't run agents, because it refuses the pidfds by which they start ranks.
"""

import shutil

import pytest
from agent_kubelet import AgentKubelet
from guest import arm64
from jobs import PATIENCE, Jobs, operator
from paths import ROOT
from waiting import wait_until

AGENTS = ROOT / "build/release/bin"
EMULATOR = ["qemu-aarch64", "-cpu", "max,pauth-impdef=on"]


@pytest.fixture
def jobs(installed, namespace, tmp_path):
    if not (AGENTS / "lockstep-agent").exists():
        pytest.skip("no agent for this machine: build the preset release, too")
    if not shutil.which(EMULATOR[0]):
        pytest.skip("qemu-user is missing: run tools/deps --arm64")
    command = [*EMULATOR, arm64(4).program("lockstep-operator")]
    with operator(installed.kubeconfig, tmp_path, "--namespace", namespace, "--system-namespace", namespace,
                  command=command), \
            AgentKubelet(installed, namespace, tmp_path, programs={"agent:test": AGENTS}) as kubelet:
        yield Jobs(installed, namespace, kubelet, tmp_path)
        installed.kubectl("-n", namespace, "delete", "tj", "--all", "--wait=false")
        wait_until(lambda: not installed.kubectl("-n", namespace, "get", "pods", "-o", "name"), "the pods to go",
                   PATIENCE, 0.1)


def test_operator_replaces_a_lost_machine_and_ends_the_job(jobs, tmp_path):
    gate = tmp_path / "gate"
    jobs.apply("gpt", f'while [ ! -e "{gate}" ]; do sleep 0.05; done')
    jobs.wait_state("gpt", "Running")
    before = jobs.pods("gpt")
    assert len(before) == 2
    jobs.kubelet.process("gpt-1").kill()
    wait_until(lambda: len(found := jobs.pods("gpt")) == 2 and found != before, "another pod", PATIENCE, 0.1)
    jobs.wait("gpt", lambda status: status.get("state") == "Running" and status["epoch"] == 2, "the second epoch")
    gate.touch()
    status = jobs.wait_state("gpt", "Succeeded")
    assert status["restarts"]["total"] == 1
