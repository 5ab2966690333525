"""The agent as process 1 of a pod: nothing but its environment, a key, an emptyDir and a log."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess

import processes
import pytest
from object_store import SECRET, ObjectStore
from object_store import program as object_store_program
from paths import MODULES
from pods import Pods
from tls import binary
from waiting import wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts, as kubelet does, want root")

RUNS_ON = "trap 'echo stopping; exit 3' TERM; echo here; while :; do sleep 1 & wait $!; done"


def installed(folder):
    return subprocess.run([binary("lockstep-agent"), "--install", str(folder)],
                          capture_output=True, text=True, check=False)


def test_agent_installs_itself_for_all_users_even_over_a_running_copy(tmp_path):
    copy = tmp_path / "lockstep-agent"
    original = pathlib.Path(binary("lockstep-agent"))
    helpers = [helper for name in ("lockstep-pmix", "lockstep-s3") if (helper := original.with_name(name)).exists()]
    for _ in range(2):
        done = installed(tmp_path)
        assert done.returncode == 0, done.stderr
        assert copy.read_bytes() == original.read_bytes()
        assert copy.stat().st_mode & 0o7777 == 0o555
        assert sorted(os.listdir(tmp_path)) == ["lockstep-agent", *(helper.name for helper in helpers)]
        for helper in helpers:
            assert (tmp_path / helper.name).read_bytes() == helper.read_bytes()
            mode = 0o111 if helper.name == "lockstep-s3" else 0o555  # ranks can't look into what they can't read
            assert (tmp_path / helper.name).stat().st_mode & 0o7777 == mode
        with subprocess.Popen([copy, "--config-fd", "0"], stdin=subprocess.PIPE) as running:
            assert installed(tmp_path).returncode == 0
            running.stdin.close()
    assert subprocess.run([copy, "--version"], check=False).returncode == 0


def test_install_needs_less_memory_than_size_of_agent(tmp_path):
    size = os.stat(binary("lockstep-agent")).st_size
    limit = size // 2, size // 2
    done = subprocess.run([binary("lockstep-agent"), "--install", str(tmp_path)],
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, limit),
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_spare_waits_and_exits_on_sigterm():
    with subprocess.Popen([binary("lockstep-agent"), "--spare"]) as spare:
        wait_until(lambda: processes.state(spare.pid) == "S", "the spare to wait")
        with pytest.raises(subprocess.TimeoutExpired):
            spare.wait(timeout=0.3)
        spare.terminate()
        assert spare.wait(timeout=60) == 0


def test_agent_waiting_for_configuration_blocks_every_signal_that_asks_it_to_stop():
    with subprocess.Popen([binary("lockstep-agent"), "--config-fd", "0"],
                          stdin=subprocess.PIPE) as agent:
        # It waits for its configuration.
        for asked in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
                      signal.SIGUSR2, signal.SIGXCPU, signal.SIGPWR):
            wait_until(lambda n=asked: processes.has_signal(agent.pid, "SigBlk", n),
                       f"{asked.name} to be blocked")
        agent.kill()


def test_failed_install_reports_reason_and_leaves_no_file(tmp_path):
    done = installed(tmp_path / "nowhere")
    assert done.returncode == 78
    assert "/nowhere/" in done.stderr and "No such file" in done.stderr
    assert os.listdir(tmp_path) == []


@needs_root
def test_gang_of_pods_reaches_verdict_and_ranks_inherit_pod_environment(tmp_path):
    command = ["sh", "-c", "echo rank $RANK of $WORLD_SIZE: $COLOR $OMP_NUM_THREADS $(MACHINE_NAME)"
               " [$LOCKSTEP_CONFIG$LOCKSTEP_POD_IP$SLURM_JOB_ID] $MASTER_ADDR"]
    with Pods(tmp_path, machines=2, processesPerMachine=2, command=command) as pods:
        given = {"COLOR": "blue", "OMP_NUM_THREADS": "7", "RANK": "99", "SLURM_JOB_ID": "1",
                 "MACHINE_NAME": "n1"}
        pods.start(0, environment=given, attempts=[1, 1])
        pods.start(1, environment=given)
        for machine in range(2):
            code, message = pods.end(machine)
            assert code == 0, pods.logs()
            assert message["verdict"] and message["machine"] == machine
        for rank in range(4):
            line = f"rank {rank} of 4: blue 7 n1 [] 127.0.0.1"
            assert line in pods.pods[rank // 2].output, pods.logs()


SAVES = """
import os, lockstep
folder = os.path.join(lockstep.memory_dir(), "step-1")
os.mkdir(folder)
open(os.path.join(folder, "rank-" + os.environ["RANK"]), "w").close()
lockstep.commit(folder)
print("sees", *sorted(name for name in os.environ if "AWS" in name or "STORE" in name))
try:
    open("/proc/1/environ").read()
except PermissionError:
    print("reads nothing of the agent")
"""


@needs_root
def test_pods_upload_with_credentials_of_a_secret_that_ranks_do_not_get(tmp_path):
    checkpoint = {"memory": {"size": "8Mi"}, "persistEvery": "0s", "url": "s3://bucket/run", "secret": "bucket"}
    with ObjectStore(tmp_path / "store") as store, Pods(
            tmp_path, machines=2, command=["python3", "-c", SAVES], checkpoint=checkpoint) as pods:
        shutil.copy(object_store_program(), pods.image / "lockstep-s3")
        shutil.copy(MODULES / "lockstep.py", pods.image)
        given = {f"LOCKSTEP_STORE_{name}": value for name, value in store.variables.items() if name != "PATH"}
        # The pod's own credentials are another account's, for its data.
        given |= {"PYTHONPATH": "/mnt/image", "AWS_ACCESS_KEY_ID": "data", "AWS_SESSION_TOKEN": "data"}
        for machine in range(2):
            pods.start(machine, environment=given, checkpointURL=store.url)
        assert [pods.end(machine)[0] for machine in range(2)] == [0, 0], pods.logs()
        assert store.keys("commits") == ["commits/1-1/000001.step-1.json"]
        assert store.keys("checkpoints") == [f"checkpoints/1-1/000001.step-1/rank-{rank}" for rank in range(2)]
        for machine in range(2):
            assert "sees AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN\n" in pods.pods[machine].output
            assert "reads nothing of the agent" in pods.pods[machine].output
        assert SECRET not in pods.logs()


@needs_root
def test_members_wait_for_a_machine_0_that_comes_late(tmp_path):
    with Pods(tmp_path, machines=2, command=["true"]) as pods:
        member = pods.start(1)
        wait_until(lambda: pods.status(1), lambda: f"the member to answer\n{member.log}", 60)
        pods.start(0)
        assert [pods.end(machine)[0] for machine in range(2)] == [0, 0], pods.logs()


@needs_root
def test_pod_exits_on_sigterm_before_machine_0_exists(tmp_path):
    with Pods(tmp_path, machines=2, command=["true"]) as pods:
        member = pods.start(1)
        wait_until(lambda: pods.status(1), lambda: f"the member to answer\n{member.log}", 60)
        member.terminate()
        code, message = pods.end(1)
        assert (code, message["verdict"]) == (143, False)


@needs_root
def test_sigterm_to_one_pod_stops_all_ranks_and_gang_gathers_again(tmp_path):
    with Pods(tmp_path, machines=2, command=["sh", "-c", RUNS_ON]) as pods:
        for machine in range(2):
            pods.start(machine)
        pods.wait_phase("Running")
        for pod in pods.pods.values():
            wait_until(lambda p=pod: "here" in p.output, pods.logs, 60)
        pods.pods[1].terminate()
        code, message = pods.end(1)
        assert (code, message["verdict"]) == (143, False)
        pods.wait_phase("Gathering")
        assert pods.status()["counters"]["stops"] == 1
        for pod in pods.pods.values():
            wait_until(lambda p=pod: "stopping" in p.output, pods.logs, 60)


@needs_root
def test_pods_meet_over_ipv6(tmp_path):
    with Pods(tmp_path, machines=2, any_address="::", loopback="::1", command=["true"]) as pods:
        for machine in range(2):
            pods.start(machine)
        assert [pods.end(machine)[0] for machine in range(2)] == [0, 0], pods.logs()


@needs_root
def test_a_job_without_a_command_runs_the_trainer_of_its_image(tmp_path):
    with Pods(tmp_path, trainer={"data": ["/data/*.txt"], "steps": 7}) as pods:
        trainer = pods.image / "lockstep-trainer"
        trainer.write_text("#!/bin/sh\necho the image trains: $@\n")
        trainer.chmod(0o755)
        pods.start(0)
        assert pods.end(0)[0] == 0, pods.logs()
        assert 'the image trains: job {"data":["/data/*.txt"],"steps":7}' in pods.pods[0].output
