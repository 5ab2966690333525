"""Ranks that don't form the one world of their job: what `lockstep run` says of it, and when not."""

import sys

import pytest
from run import Run
from run_output import Output

NEVER_MET = "the ranks never met"

# Ranks 0 and 2, on two machines, are connected when rank 1 ends, which the agent looks at.
CONNECT = """
import os, pathlib, socket, sys, time
folder, rank = pathlib.Path(sys.argv[2]), os.environ["RANK"]
where = {"master": (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])),
         "own": ("127.0.0.1", 0)}[sys.argv[1]]
def leave(name, text=""):
    (folder / (name + ".new")).write_text(text)
    (folder / (name + ".new")).rename(folder / name)
def found(name):
    while not (folder / name).exists():
        time.sleep(0.01)
    return (folder / name).read_text()
if rank == "0":
    server = socket.create_server(where)
    leave("port", str(server.getsockname()[1]))
    line = server.accept()[0]
    leave("connected")
if rank == "1":
    leave("one", str(os.getpid()))
    found("connected")
if rank == "2":
    line = socket.create_connection((where[0], int(found("port"))))
    line.recv(1)
if rank == "0":
    one = found("one")
    while os.path.exists("/proc/" + one):
        time.sleep(0.01)
    time.sleep(0.2)
"""


def waiting(folder):
    """Python that waits for folder/go."""
    return f"import os, time\nwhile not os.path.exists({str(folder / 'go')!r}): time.sleep(0.01)\n"


def finish(run, output, folder):
    (folder / "go").touch()
    code = run.process.wait(60)
    return code, output.join()


def test_run_says_that_the_ranks_of_a_job_that_succeeded_never_met(tmp_path):
    code, report, output = Run(tmp_path, "-m", "2", "--", sys.executable, "-c", "0").finish()
    assert code == 0, output
    assert output.count(NEVER_MET) == 1, output
    [condition] = [each for each in report["conditions"] if each["type"] == "RanksNeverMet"]
    assert condition["status"] == "True" and NEVER_MET in condition["message"], report


@pytest.mark.parametrize("where", ["master", "own"])
def test_run_says_nothing_of_ranks_that_met_at_the_master_or_elsewhere(where, tmp_path):
    code, _, output = Run(tmp_path, "-m", "2", "-p", "2", "--", sys.executable, "-c", CONNECT, where,
                          str(tmp_path)).finish()
    assert code == 0, output
    assert NEVER_MET not in output, output


def test_run_says_nothing_of_ranks_that_need_not_meet(tmp_path):
    code, _, output = Run(tmp_path, "-m", "2", "--framework", "None", "--", sys.executable, "-c",
                          "0").finish()
    assert code == 0, output
    assert NEVER_MET not in output, output


def test_run_says_that_a_script_runs_a_launcher_of_its_own_on_each_machine(tmp_path):
    launcher = tmp_path / "accelerate"
    launcher.write_text(f"#!{sys.executable}\n{waiting(tmp_path)}")
    launcher.chmod(0o700)
    script = tmp_path / "train.sh"
    script.write_text(f"{launcher} launch train.py\n")
    run = Run(tmp_path, "-m", "2", "--launch", "PerMachine", "--", "bash", str(script))
    output = Output(run)
    output.wait("rank 0 runs accelerate launch, which starts a separate training", "a word of it")
    code, text = finish(run, output, tmp_path)
    assert code == 0, text
    assert text.count("rank 0 runs accelerate launch") == 1, text


def test_run_says_that_what_a_rank_started_has_a_world_of_its_machine_alone(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(waiting(tmp_path))
    run = Run(tmp_path, "-m", "2", "--", "sh", "-c",
              f"WORLD_SIZE=1 LOCAL_WORLD_SIZE=1 {sys.executable} {program}; true")
    output = Output(run)
    output.wait("a process that rank 0 started has WORLD_SIZE=1", "a word of it")
    code, text = finish(run, output, tmp_path)
    assert code == 0, text


def test_job_fails_if_mpirun_of_a_script_starts_a_smaller_world(tmp_path):
    """As an Open MPI with a hostfile of its own does."""
    program = tmp_path / "program.py"
    program.write_text("import time\ntime.sleep(1)\n")
    code, _, output = Run(tmp_path, "-p", "4", "--framework", "Mpi", "--", "sh", "-c",
                          f"OMPI_COMM_WORLD_SIZE=2 {sys.executable} {program}; true").finish()
    assert code == 78, output
    assert "its ranks were 2 and not 4" in output, output
