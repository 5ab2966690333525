"""framework: Mpi with a stand-in of mpirun that calls the remote shell as the real ones do; these
run under tools/test frameworks."""

import json
import os
import signal

import processes
import pytest
from paths import ROOT
from run import MARK, Run
from waiting import wait_until

STAND_IN = str(ROOT / "tests/lib/stand_in_mpirun.py")
STYLES = ["openmpi4", "openmpi5", "mpich", "intel"]


def start(folder, style, *mode, machines=3):
    return Run(folder, "-m", str(machines), "-p", "2", "--framework", "Mpi", "--", STAND_IN, style,
               str(folder), *mode)


def wait_up(folder):
    return json.loads(wait_until(lambda: (folder / "up").exists() and (folder / "up").read_text(),
                                 "daemons to call back"))


def daemons(run):
    """Not the shells about them."""
    return [pid for pid in processes.with_variable(MARK, run.mark)
            if processes.command(pid).startswith(f"/usr/bin/python3 {STAND_IN} daemon")]


@pytest.mark.parametrize("style", STYLES)
def test_daemons_run_on_every_other_machine_and_the_launchers_end_is_the_jobs(style, tmp_path):
    run = start(tmp_path, style)
    told = wait_up(tmp_path)
    assert sorted(own["host"].rpartition("-")[2] for own in told) == ["1", "2"]
    assert len({own["tmpdir"] for own in told}) == 2
    assert {own["generation"] for own in told} == {"1-1"}
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert code == 0, output
    assert report["state"] == "Succeeded" and len(report["generations"]) == 1, report


def test_a_daemon_that_runs_on_when_the_launcher_ends_well_is_stopped(tmp_path):
    run = start(tmp_path, "mpich", "leave")
    wait_up(tmp_path)
    (tmp_path / "go").touch()
    code, report, output = run.finish()  # and nothing is left
    assert (code, report["state"]) == (0, "Succeeded"), output


def test_a_machine_that_was_never_asked_fails_the_job(tmp_path):
    code, report, output = start(tmp_path, "openmpi5", "skip").finish()
    assert code == 78, output
    assert "never ran anything on machine 1" in output, output


def test_a_host_that_is_none_of_the_job_is_refused(tmp_path):
    run = start(tmp_path, "openmpi4", "refused")
    wait_up(tmp_path)
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert code == 0, output


def test_a_killed_daemon_is_named_and_the_gang_begins_again(tmp_path):
    run = start(tmp_path, "openmpi4", machines=2)
    wait_up(tmp_path)
    (tmp_path / "up").unlink()
    [daemon] = daemons(run)
    os.kill(daemon, signal.SIGKILL)
    assert wait_up(tmp_path)[0]["generation"] == "1-2"
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert (code, len(report["generations"])) == (0, 2), output
    assert "daemon on machine 1" in output, output


def test_a_daemon_that_exits_is_named_with_its_code(tmp_path):
    run = Run(tmp_path, "-m", "2", "-p", "2", "--framework", "Mpi", "--max-restarts", "0", "--",
              STAND_IN, "mpich", str(tmp_path), "die", "9")
    code, report, output = run.finish()
    assert code == 9, output
    assert "the launcher's daemon on machine 1 exited with code 9" in output, output


def test_the_launchers_own_exit_is_the_gangs(tmp_path):
    run = Run(tmp_path, "-m", "2", "-p", "2", "--framework", "Mpi", "--max-restarts", "0", "--",
              STAND_IN, "intel", str(tmp_path), "fail", "134")
    wait_up(tmp_path)
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert code == 134, output
    assert "the launcher on machine 0 exited with code 134" in output, output


def test_the_shell_of_a_past_generation_reaches_nothing(tmp_path):
    code, report, output = start(tmp_path, "mpich", "past", machines=2).finish()
    assert (tmp_path / "fenced").exists(), output
    assert code == 78, output  # for the other machine was never asked


def test_a_daemons_flood_of_output_holds_up_nobody(tmp_path):
    run = start(tmp_path, "mpich", "flood")
    wait_up(tmp_path)
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert code == 0, output
