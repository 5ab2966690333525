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
def test_daemons_run_on_every_other_machine_and_job_succeeds_with_launcher(style, tmp_path):
    run = start(tmp_path, style)
    told = wait_up(tmp_path)
    assert sorted(own["host"].rpartition("-")[2] for own in told) == ["1", "2"]
    assert len({own["tmpdir"] for own in told}) == 2
    assert {own["generation"] for own in told} == {"1-1"}
    for own in told:  # a node to an MPI library, with a name that resolves as its own and machine 0's
        assert own["name"] == own["host"], own
        assert own["machine 0"] == own["master"] != own["address"], own
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert code == 0, output
    assert report["state"] == "Succeeded" and len(report["generations"]) == 1, report


def test_agent_stops_daemon_that_outlives_successful_launcher(tmp_path):
    run = start(tmp_path, "mpich", "leave")
    wait_up(tmp_path)
    (tmp_path / "go").touch()
    code, report, output = run.finish()  # and nothing is left
    assert (code, report["state"]) == (0, "Succeeded"), output


def test_job_fails_if_launcher_starts_no_daemon_on_a_machine(tmp_path):
    code, report, output = start(tmp_path, "openmpi5", "skip").finish()
    assert code == 78, output
    assert "ran no command on machine 1" in output, output


def test_remote_shell_rejects_host_outside_the_job(tmp_path):
    run = start(tmp_path, "openmpi4", "refused")
    wait_up(tmp_path)
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert code == 0, output


def test_run_names_machine_of_killed_daemon_and_restarts_the_gang(tmp_path):
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


def test_run_names_machine_and_exit_code_of_failed_daemon(tmp_path):
    run = Run(tmp_path, "-m", "2", "-p", "2", "--framework", "Mpi", "--max-restarts", "0", "--",
              STAND_IN, "mpich", str(tmp_path), "die", "9")
    code, report, output = run.finish()
    assert code == 9, output
    assert "the launcher's daemon on machine 1 exited with code 9" in output, output


def test_run_exits_with_exit_code_of_failed_launcher(tmp_path):
    run = Run(tmp_path, "-m", "2", "-p", "2", "--framework", "Mpi", "--max-restarts", "0", "--",
              STAND_IN, "intel", str(tmp_path), "fail", "134")
    wait_up(tmp_path)
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert code == 134, output
    assert "the launcher on machine 0 exited with code 134" in output, output


def test_remote_shell_of_ended_generation_starts_no_daemon(tmp_path):
    code, report, output = start(tmp_path, "mpich", "past", machines=2).finish()
    assert (tmp_path / "fenced").exists(), output
    assert code == 78, output  # for the other machine was never asked


def test_run_says_that_machines_without_namespaces_share_one_host_name(tmp_path):
    run = Run(tmp_path, "-m", "2", "--framework", "Mpi", "--no-pid-namespace", "--", "mpirun-x")
    _, _, output = run.finish()
    assert output.count("all machines have this computer's host name") == 1, output


def test_flood_of_daemon_output_does_not_block_the_job(tmp_path):
    run = start(tmp_path, "mpich", "flood")
    wait_up(tmp_path)
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert code == 0, output
