"""Roles: who is what, a rank that is started again alone, and a role whose end ends the job."""

import json
import os
import pathlib
import signal
import sys

import processes
import pytest
import yaml
from run import MARK, Run
from waiting import wait_until

PROGRAM = pathlib.Path(__file__).parent / "role_program.py"
ROLES = [{"name": "chief"}, {"name": "worker", "count": 2, "restart": "Alone"}, {"name": "ps"}]
RANKS = ["chief-0", "worker-0", "worker-1", "ps-0"]


class Job:
    """Ranks 0 and 1 are on machine 0, 2 and 3 on machine 1."""

    def __init__(self, folder, variables=None, roles=ROLES, **spec):
        self.folder = folder
        for rank in RANKS:
            os.mkfifo(folder / rank)
        self.gates = {rank: os.open(folder / rank, os.O_RDWR) for rank in RANKS}
        (folder / "job.yaml").write_text(yaml.safe_dump({
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "roles"},
            "spec": {"numMachines": 2, "processesPerMachine": 2, "framework": "TensorFlow",
                     "roles": roles, "successPolicy": "Role", "successRole": "chief",
                     "gracePeriod": "5s", "command": [sys.executable, str(PROGRAM), str(folder)],
                     **spec}}))
        self.run = Run(folder, str(folder / "job.yaml"), variables=variables)
        for rank in RANKS:
            self.wait_told(rank)
        self.pids = {rank: self.of(rank, "python")[0] for rank in RANKS}

    def of(self, rank, name):
        """The processes of a rank whose name begins so."""
        return [pid for pid in processes.with_variable(MARK, self.run.mark)
                if processes.environment(pid).get("RANK") == str(RANKS.index(rank))
                and processes.name(pid).startswith(name)]

    def wait_told(self, rank, start=1):
        """What the rank has told at its start, of the first, the second and so on."""
        file = self.folder / f"{rank}.{start}"
        wait_until(file.exists, f"{rank} to start", 60)
        return json.loads(file.read_text())

    def kill(self, rank):
        os.kill(self.pids[rank], signal.SIGKILL)

    def end(self, rank, code=0):
        """Now, and whenever it starts again."""
        plain = self.folder / f"open-{rank}"
        plain.write_text(str(code))
        plain.rename(self.folder / rank)  # for a rank that has told, and not yet opened it
        os.write(self.gates[rank], str(code).encode())
        os.close(self.gates.pop(rank))  # the last writer


@pytest.fixture(name="job")
def fixture_job(tmp_path):
    return lambda **options: Job(tmp_path, **options)


def test_each_rank_gets_its_role_and_the_tensorflow_cluster(job):
    made = job()
    told = [made.wait_told(rank) for rank in RANKS]
    for number, (each, rank) in enumerate(zip(told, RANKS, strict=True)):
        role, index = rank.split("-")
        size = "2" if role == "worker" else "1"
        assert each["RANK"] == str(number)
        for names in (("LOCKSTEP_ROLE", "LOCKSTEP_ROLE_RANK", "LOCKSTEP_ROLE_SIZE"),
                      ("ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE")):
            assert tuple(each[name] for name in names) == (role, index, size)
        config = json.loads(each["TF_CONFIG"])
        assert config["task"] == {"type": role, "index": int(index)}
        cluster = config["cluster"]
        assert {name: len(tasks) for name, tasks in cluster.items()} == {"chief": 1, "worker": 2,
                                                                         "ps": 1}
        assert cluster == json.loads(told[0]["TF_CONFIG"])["cluster"]
        assert len({task for tasks in cluster.values() for task in tasks}) == 4
    made.end("chief-0")
    code, report, output = made.run.finish()
    assert code == 0 and len(report["generations"]) == 1, output


def test_killed_worker_restarts_alone_while_other_ranks_keep_running(job):
    made = job()
    made.kill("worker-1")
    assert made.wait_told("worker-1", 2) == made.wait_told("worker-1"), "all as it was"
    for rank in ("chief-0", "worker-0", "ps-0"):
        assert made.of(rank, "python") == [made.pids[rank]]
    made.end("chief-0")
    code, report, output = made.run.finish()
    assert code == 0, output
    assert len(report["generations"]) == 1, report
    assert report["restarts"]["application"] == 1, report
    assert report["counters"]["alone"] == 1, report
    said = ("rank 2 (worker 1) on machine 1 was killed by SIGKILL; it alone is started again, restart 1 of 3 "
            "allowed")
    assert said in output, output
    assert report["lastFailure"]["message"] == said and report["lastFailure"]["rank"] == 2


def test_agent_kills_leftover_process_of_killed_rank_before_rank_restarts(job):
    made = job(variables={"LEAVES": "worker"})
    left = made.of("worker-0", "sleep"), made.of("worker-1", "sleep")
    assert [len(each) for each in left] == [1, 1]
    made.kill("worker-0")
    assert made.wait_told("worker-0", 2)["met"] is None
    assert not processes.alive(left[0][0])
    assert processes.alive(left[1][0]), "that of another rank"
    made.end("chief-0")
    code, _, output = made.run.finish()
    assert code == 0, output


def test_killed_parameter_server_starts_new_generation(job):
    made = job()
    made.kill("ps-0")
    for rank in RANKS:
        assert made.wait_told(rank, 2)["LOCKSTEP_GENERATION"] == "1-2"
        assert not processes.alive(made.pids[rank])
    made.end("chief-0")
    code, report, output = made.run.finish()
    assert code == 0 and len(report["generations"]) == 2, output
    assert "rank 3 (ps) on machine 1 was killed by SIGKILL" in output


def test_worker_that_keeps_failing_ends_job_with_its_exit_code(job):
    made = job(failurePolicy={"maxRestarts": 1})
    made.end("worker-0", 3)
    code, report, output = made.run.finish()
    assert code == 3, output
    assert report["lastFailure"]["rank"] == 1, report
    assert "maxRestarts is 1" in output and len(report["generations"]) == 1, output


def test_agent_does_not_restart_successful_worker(job):
    made = job()
    made.end("worker-0")
    wait_until(lambda: not processes.alive(made.pids["worker-0"]), "worker 0 to end")
    made.end("chief-0")
    code, report, output = made.run.finish()
    assert code == 0 and report["restarts"]["total"] == 0, output
    assert not (made.folder / "worker-0.2").exists()


def test_job_without_framework_gets_no_tf_config_and_ends_with_success_role(job):
    made = job(framework="None", successRole="ps")
    assert made.wait_told("ps-0")["TF_CONFIG"] is None
    made.end("ps-0")
    code, _, output = made.run.finish()
    assert code == 0, output
