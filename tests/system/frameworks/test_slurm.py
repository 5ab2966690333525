"""`lockstep run` in jobs of a real SLURM with two nodes."""

import json
import os
import re
import shlex
import signal

import processes
import pytest
import slurm
from run import MARK, ROOT, TELLS, listening, ranks
from tls import binary
from waiting import wait_until


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if why := slurm.missing():
        pytest.skip(why)
    with slurm.running_site(tmp_path_factory.mktemp("slurm")) as made:
        yield made


class Batch:
    """A job whose script is `lockstep run` of a program on all nodes."""

    def __init__(self, site, folder, program, *options, run=()):
        self.site, self.mark, self.report_file = site, str(folder), folder / "report.json"
        script = folder / "job.sh"
        script.write_text(f"""\
#!/bin/sh
exec {binary('lockstep')} run --no-table --report {self.report_file} {' '.join(run)} -- \\
  {shlex.join(program)}
""")
        self.job = site.sbatch("-N2", "--ntasks-per-node=2", *options, str(script),
                               variables={MARK: self.mark})

    def wait_ranks(self, but_not_in=None):
        def up():
            found = ranks(self.mark)
            fits = len(found) == 4 and all(g != but_not_in for _, g in found.values())
            return found if fits else None
        return wait_until(up, lambda: f"ranks\n{self.output()}\n{self.site.said()}", patience=90)

    def wait_said(self, pattern):
        return wait_until(lambda: re.search(pattern, self.output()),
                          lambda: f"{pattern}\n{self.output()}", patience=90)

    def output(self):
        return self.site.output(self.job)

    def end(self, *states):
        self.site.wait_state(self.job, *states)
        wait_until(lambda: not processes.with_variable(MARK, self.mark), "all it started to end")
        return json.loads(self.report_file.read_text())


def nodes_in(report):
    return sorted(re.findall(r"'node': '(\w+)'", str(report)))


def test_gang_in_slurm_job_recovers_from_killed_rank_and_killed_agent(site, tmp_path):
    # scancel signals ranks, too, perhaps first; dying of it would count as a failure.
    batch = Batch(site, tmp_path, TELLS)
    first = batch.wait_ranks()
    os.kill(first[3][0], signal.SIGKILL)
    second = batch.wait_ranks(but_not_in=first[3][1])
    batch.wait_said("all 4 ranks running again")
    agent = processes.parent(second[3][0])
    assert "--config-fd" in processes.command(agent)
    os.kill(agent, signal.SIGKILL)
    batch.wait_ranks(but_not_in=second[3][1])
    batch.wait_said("machine failure 1 of 10")
    site.ask("scancel", batch.job)
    report = batch.end("CANCELLED")
    assert report["restarts"]["application"] == 1, batch.output()
    assert report["restarts"]["infrastructure"] == 1, batch.output()
    assert {"n1", "n2"} <= set(nodes_in(report)) or "n2" in str(report), report


def test_slurm_job_completes_when_all_ranks_succeed(site, tmp_path):
    batch = Batch(site, tmp_path, ["sh", "-c", "echo rank $RANK of $WORLD_SIZE; [ -z $SLURM_JOB_ID ]"])
    report = batch.end("COMPLETED", "FAILED")
    assert report["exitCode"] == 0, batch.output()
    assert sorted(re.findall(r"rank (\d) of 4", batch.output())) == ["0", "1", "2", "3"]
    site.wait_state(batch.job, "COMPLETED")


def test_scancel_delivers_sigterm_to_ranks_and_suspends_job(site, tmp_path):
    batch = Batch(site, tmp_path, TELLS)
    wait_until(lambda: listening(batch.output()) == 4, batch.output, patience=90)
    site.ask("scancel", batch.job)
    report = batch.end("CANCELLED")
    assert sorted(re.findall(r"told (\d)", batch.output())) == ["0", "1", "2", "3"]
    assert report["state"] == "Suspended", report


def test_sigterm_to_batch_script_reaches_all_ranks_and_suspends_job(site, tmp_path):
    batch = Batch(site, tmp_path, TELLS)
    wait_until(lambda: listening(batch.output()) == 4, batch.output, patience=90)
    # As --signal=B:TERM@150 does when the time comes.
    site.ask("scancel", "--batch", "--signal=TERM", batch.job)
    report = batch.end("FAILED", "COMPLETED")
    assert sorted(re.findall(r"told (\d)", batch.output())) == ["0", "1", "2", "3"]
    assert report["state"] == "Suspended" and report["exitCode"] == 143, report


def test_requeued_example_resumes_from_its_checkpoint(site, tmp_path):
    variables = {"LOCKSTEP": binary("lockstep"), "CHECKPOINTS": str(tmp_path),
                 "SECONDS_PER_STEP": "0.1", MARK: str(tmp_path)}
    job = site.sbatch(f"--chdir={ROOT}", str(ROOT / "examples/slurm/train.sbatch"),
                      variables=variables)
    wait_until(lambda: list(tmp_path.glob("ddp/checkpoints/*/*step-*")), lambda: f"a save\n{site.output(job)}",
               patience=240, interval=0.2)
    assert site.ask("scontrol", "requeue", job) == ""
    wait_until(lambda: len(re.findall("training from step", site.output(job))) == 2,
               lambda: f"a second start\n{site.output(job)}\n{site.said()}", 240, 0.2)
    site.wait_state(job, "COMPLETED", patience=240)
    assert re.search(r"training from step [1-9]\d* of ", site.output(job)), site.output(job)
