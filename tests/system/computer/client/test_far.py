"""lockstep.train(cluster=True), with processes of this computer in place of a cluster's pods."""

import os
import random
import subprocess
import sys
import types

import lockstep
import pytest
from lockstep_client import far
from lockstep_client.status import Status

GENERATION = "1-1"


class Pods:
    """What submit() returns: runs each rank's command here, and keeps its lines."""

    def __init__(self, job):
        self.job, self.name, self.deleted = job, job.name, False
        environment = {"PATH": os.environ["PATH"], "LOCKSTEP_GENERATION": GENERATION,
                       "WORLD_SIZE": str(job.processes), **job.env}  # no PYTHONPATH: a bare image
        self._done = [subprocess.run(job.command, env={**environment, "RANK": str(rank)},
                                     capture_output=True, text=True, timeout=60)
                      for rank in range(job.processes)]

    def wait(self, timeout=None):
        failed = [rank for rank, done in enumerate(self._done) if done.returncode]
        if failed:
            failure = {"rank": failed[0], "stderr": self._done[failed[0]].stderr}
            raise lockstep.JobFailed(self.name, Status.from_dict({"lastFailure": failure}))
        if timeout is not None and timeout < 1:
            raise lockstep.WaitTimeout("the job goes on")
        return Status.from_dict({"state": "Succeeded", "verdict": {"generation": GENERATION}})

    def logs(self, rank=None, follow=False):
        lines = [line for done in self._done[:1 if rank == 0 else None]
                 for line in done.stdout.splitlines()]
        return iter(["lockstep-train-value 1-0 0 1 old", *lines])

    def delete(self):
        self.deleted = True


@pytest.fixture
def pods(monkeypatch):
    made = []

    def submit(job, **where):
        job.validate("cluster")
        made.append(Pods(job))
        return made[0]

    monkeypatch.setattr(far, "submit", submit)
    return made


def train(fn, **fields):
    return lockstep.train(fn, cluster=True, image="example.com/x:1", python=sys.executable, **fields)


def test_a_bare_python_calls_the_function_with_its_modules_and_gives_the_value(pods, capfd):
    own = types.ModuleType("own_module")
    exec("def twice(x): return 2 * x", own.__dict__)
    sys.modules["own_module"] = own
    noise = random.Random(0).randbytes(20_000)  # its text takes four lines
    try:
        def fit(data, plus):
            import os

            import lockstep as inside
            print("in rank", os.environ["RANK"])
            return own.twice(int(os.environ["WORLD_SIZE"])) + plus, inside.generation(), data

        value = train(fit, processes=2, args=[noise], kwargs={"plus": 1}, modules=[own])
    finally:
        del sys.modules["own_module"]
    assert value == (5, GENERATION, noise)
    [run] = pods
    assert run.name.startswith("fit-") and run.job.ttl_seconds_after_finished == 3600
    said = capfd.readouterr().out
    assert "in rank 0" in said and "in rank 1" in said and "lockstep-train-value" not in said


def test_a_failure_carries_the_traceback(pods):
    def fails():
        raise ValueError("boom")

    with pytest.raises(lockstep.JobFailed, match=r"\| ValueError: boom"):
        train(fails, echo=False)


def test_a_value_that_is_too_large_or_missing_is_said(pods):
    def returns_much():
        import random
        return random.Random(0).randbytes(2_000_000)

    with pytest.raises(lockstep.JobFailed, match="returns at most 1024 KiB"):
        train(returns_much, echo=False)
    pods.clear()
    with pytest.raises(lockstep.LockstepError, match="log has no value"):
        train(lambda: sys.exit(0), echo=False)


def test_another_python_in_the_image_is_said(pods, monkeypatch):
    monkeypatch.setattr(far.sys, "version_info", (3, 7, 0))
    with pytest.raises(lockstep.JobFailed, match="the caller has 3.7; both must be equal"):
        train(len, args=["x"], echo=False)


def test_a_job_that_takes_too_long_is_deleted(pods):
    with pytest.raises(lockstep.WaitTimeout, match="took longer than 0.5 s and was deleted"):
        train(lambda: 1, timeout=0.5, echo=False)
    assert pods[0].deleted


def test_what_does_not_fit_is_refused_before_a_job_is_made(pods):
    with pytest.raises(lockstep.LockstepError, match="KiB when compressed, and a job takes 127 KiB"):
        train(len, args=[random.Random(0).randbytes(200_000)])
    with pytest.raises(TypeError, match="need cluster=True"):
        lockstep.train(len, args=["x"], namespace="research")
    assert not pods
