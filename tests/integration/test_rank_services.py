"""What agents answer to MPI's and Horovod's processes, with clients of their protocols that are
strict; the real ones run in tests/frameworks."""

import os
import pathlib
import signal
import sys

import yaml

from run import Run
from waiting import wait_until

HERE = pathlib.Path(__file__).parent
MPI = {"framework": "Mpi", "mpi": {"start": "Pmi"}}
HOROVOD = {"framework": "Horovod"}


def start(folder, program, spec, machines=2):
    job = folder / "job.yaml"
    job.write_text(yaml.safe_dump({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "ranks"},
        "spec": {"image": "example.com/a:1", "numMachines": machines, "processesPerMachine": 2,
                 "command": [sys.executable, str(HERE / program), str(folder)], **spec}}))
    return Run(folder, str(job))


def wait_met(folder, generation, count=4):
    """Every rank of this generation has found all others."""
    wait_until(lambda: len(list(folder.glob(f"rank-{generation}-*"))) == count,
               f"{count} ranks of {generation} to meet", patience=120)


def test_ranks_of_mpi_meet_and_the_next_generation_begins_with_an_empty_table(tmp_path):
    run = start(tmp_path, "pmi_program.py", MPI, machines=3)
    wait_met(tmp_path, "1-1", 6)
    mappings = {file.read_text() for file in tmp_path.glob("rank-1-1-*")}
    assert mappings == {"(vector,(0,3,2))"}
    os.kill(run.wait_ranks(6)[2][0], signal.SIGKILL)
    wait_met(tmp_path, "1-2", 6)
    (tmp_path / "go").touch()
    code, _, output = run.finish()
    assert code == 0, output
    assert "rank 2 on machine 1 was killed by SIGKILL" in output, output


def test_a_rank_that_aborts_is_named_with_its_code_whatever_its_process_exits_with(tmp_path):
    run = start(tmp_path, "pmi_program.py", MPI)
    wait_met(tmp_path, "1-1")
    (tmp_path / "abort").touch()
    wait_met(tmp_path, "1-2")
    (tmp_path / "go").touch()
    code, _, output = run.finish()
    assert code == 0, output
    assert "rank 3 on machine 1 exited with code 7" in output, output


def test_a_rank_that_ends_within_mpi_has_failed(tmp_path):
    (tmp_path / "no-finalize").touch()
    (tmp_path / "go").touch()
    run = start(tmp_path, "pmi_program.py", {**MPI, "failurePolicy": {"maxRestarts": 0}})
    code, _, output = run.finish()
    assert code != 0, output
    assert "exited with code 0 before MPI_Finalize" in output, output


def test_ranks_of_horovod_meet_again_and_again(tmp_path):
    run = start(tmp_path, "horovod_program.py", HOROVOD)
    wait_met(tmp_path, "1-1")
    os.kill(run.wait_ranks(4)[2][0], signal.SIGKILL)
    wait_met(tmp_path, "1-2")
    (tmp_path / "go").touch()
    code, _, output = run.finish()
    assert code == 0, output
