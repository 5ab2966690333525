"""MPI programs whose ranks the agents start themselves: `mpi.start: Pmi`, with real MPICH and Intel
MPI under mpi4py."""

import os
import pathlib
import signal

import pytest
import yaml
from run import Run
from waiting import wait_until

PROGRAM = pathlib.Path(__file__).parent / "programs/pmi_sum.py"


def start(python, folder, steps):
    job = folder / "job.yaml"
    libraries = pathlib.Path(python).parents[1] / "lib"  # where wheels of MPI put theirs
    job.write_text(yaml.safe_dump({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "mpi"},
        "spec": {"image": "example.com/mpi:1", "numMachines": 2, "processesPerMachine": 2,
                 "framework": "Mpi", "mpi": {"start": "Pmi"},
                 "command": [python, str(PROGRAM), str(folder), str(steps)],
                 "env": [{"name": "LD_LIBRARY_PATH", "value": str(libraries)}]}}))
    return Run(folder, str(job))


def wait_steps(folder):
    wait_until(lambda: len(list(folder.glob("rank-*"))) == 4, "the first step", patience=120)


@pytest.fixture(params=["mpich", "impi"])
def python(request, python_with):
    return python_with(request.param)


def test_ranks_are_one_world_and_know_who_shares_their_machine(python, tmp_path):
    code, _, output = start(python, tmp_path, 3).finish(120)
    assert code == 0, output
    for rank in range(4):
        said = (tmp_path / f"rank-{rank}").read_text()
        assert said == f"rank {rank} of 4, {rank % 2} of 2 here", output


def test_a_dead_rank_is_named_and_the_gang_begins_again_in_place(python, tmp_path):
    run = start(python, tmp_path, 300)
    found = run.wait_ranks(4)
    wait_steps(tmp_path)
    os.kill(found[2][0], signal.SIGKILL)
    code, report, output = run.finish(120)
    assert code == 0, output
    assert "rank 2 on machine 1 was killed by SIGKILL" in output, output


def test_a_rank_that_calls_abort_is_named_with_its_code(python, tmp_path):
    (tmp_path / "abort").touch()
    code, _, output = start(python, tmp_path, 100).finish(120)
    assert code == 0, output
    assert "rank 3 on machine 1 exited with code 7" in output, output
    assert "rank 3 called MPI_Abort with code 7" in output or "rank 3 has had enough" in output
