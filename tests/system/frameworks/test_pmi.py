"""MPI programs whose ranks the agents start themselves, under mpi4py: `mpi.start: Pmi` with real
MPICH and Intel MPI, `mpi.start: Pmix` with real Open MPI 5 and 4; and of the latter a program in
C."""

import os
import pathlib
import signal
import subprocess

import pytest
import yaml
from run import Run
from waiting import wait_until

PROGRAMS = pathlib.Path(__file__).parent / "programs"
STARTS = {"mpich": "Pmi", "impi": "Pmi", "openmpi": "Pmix", "openmpi4": "Pmix"}


def start(mpi, folder, steps, how=None, command=None, restarts=3):
    name, python = mpi
    job = folder / "job.yaml"
    variables = {"LD_LIBRARY_PATH": pathlib.Path(python).parents[1] / "lib"}  # the wheels' place
    if name == "openmpi4":  # unpacked from Debian's packages
        root = pathlib.Path(python).parents[1] / "debian/usr"
        variables = {"LD_LIBRARY_PATH": root / "lib/x86_64-linux-gnu", "OPAL_PREFIX": root,
                     "OMPI_MCA_mca_base_component_show_load_errors": 0}
    job.write_text(yaml.safe_dump({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "mpi"},
        "spec": {"image": "example.com/mpi:1", "numMachines": 2, "processesPerMachine": 2,
                 "framework": "Mpi", "mpi": {"start": how or STARTS[name]},
                 "failurePolicy": {"maxRestarts": restarts},
                 "command": command or [python, str(PROGRAMS / "pmi_sum.py"), str(folder),
                                        str(steps)],
                 "env": [{"name": name, "value": str(value)}
                         for name, value in variables.items()]}}))
    return Run(folder, str(job))


def wait_steps(folder):
    wait_until(lambda: len(list(folder.glob("rank-*"))) == 4, "the first step", patience=120)


@pytest.fixture(params=list(STARTS))
def mpi(request, python_with):
    return request.param, python_with(request.param)


def test_ranks_form_one_world_and_know_their_local_rank(mpi, tmp_path):
    code, _, output = start(mpi, tmp_path, 3).finish(120)
    assert code == 0, output
    for rank in range(4):
        said = (tmp_path / f"rank-{rank}").read_text()
        assert said == f"rank {rank} of 4, {rank % 2} of 2 here", output


def test_job_names_killed_rank_and_restarts_gang(mpi, tmp_path):
    run = start(mpi, tmp_path, 300)
    found = run.wait_ranks(4)
    wait_steps(tmp_path)
    os.kill(found[2][0], signal.SIGKILL)
    code, report, output = run.finish(120)
    assert code == 0, output
    assert "rank 2 on machine 1 was killed by SIGKILL" in output, output


def test_job_names_rank_that_calls_abort_and_its_exit_code(mpi, tmp_path):
    (tmp_path / "abort").touch()
    code, _, output = start(mpi, tmp_path, 100).finish(120)
    assert code == 0, output
    assert "rank 3 on machine 1 exited with code 7" in output, output
    assert "rank 3 called MPI_Abort with code 7" in output or "rank 3 has had enough" in output


def test_ranks_of_a_c_program_form_one_world(python_with, tmp_path):
    python = pathlib.Path(python_with("openmpi"))
    subprocess.run([python.parent / "mpicc", "-o", tmp_path / "sum", PROGRAMS / "mpi_sum.c"],
                   env={**os.environ, "LD_LIBRARY_PATH": str(python.parents[1] / "lib")}, check=True)
    code, _, output = start(("openmpi", python), tmp_path, 0,
                            command=[str(tmp_path / "sum")]).finish(120)
    assert code == 0, output
    for rank in range(4):
        assert f"rank {rank} of 4, {rank % 2} of 2 here: 6" in output, output


def test_mpich_started_by_pmix_fails_with_its_own_error(python_with, tmp_path):
    mpich = ("mpich", python_with("mpich"))
    code, _, output = start(mpich, tmp_path, 3, how="Pmix", restarts=0).finish(120)
    assert code not in (0, 78), output
    assert "unsupported PMI version PMIx" in output, output


def test_intel_mpi_started_by_pmix_fails_job_with_hint_to_use_pmi(python_with, tmp_path):
    impi = ("impi", python_with("impi"))
    code, _, output = start(impi, tmp_path, 3, how="Pmix").finish(120)
    assert code == 78, output
    assert "mpi.start: Pmi for MPICH and Intel MPI" in output, output


def test_open_mpi_started_by_pmi_fails_job_with_hint_to_use_pmix(python_with, tmp_path):
    openmpi = ("openmpi", python_with("openmpi"))
    command = [openmpi[1], "-c", "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"]
    code, _, output = start(openmpi, tmp_path, 3, how="Pmi", command=command).finish(120)
    assert code == 78, output
    assert "mpi.start: Pmix for Open MPI 4 and 5" in output, output


def test_program_reports_missing_mpi_library(python_with, tmp_path):
    python = python_with("openmpi4")  # mpi4py alone, without what is unpacked beside it
    code, _, output = start(("none", python), tmp_path, 3, how="Pmix").finish(120)
    assert code != 0, output
    assert "cannot load MPI library" in output, output
