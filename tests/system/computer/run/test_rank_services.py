"""What agents answer to MPI's and Horovod's processes, with clients of their protocols that are
strict, and with OpenPMIx's own; the real ones run in tests/system/frameworks."""

import os
import pathlib
import re
import shutil
import signal
import sys

import processes
import pytest
import yaml
from run import Run
from tls import binary
from waiting import wait_until

HERE = pathlib.Path(__file__).parent
MPI = {"framework": "Mpi", "mpi": {"start": "Pmi"}}
PMIX = {"framework": "Mpi", "mpi": {"start": "Pmix"}}
HOROVOD = {"framework": "Horovod"}
# Each with its program.
SERVICES = [("pmi_program.py", MPI), ("pmix_program.py", PMIX)]


@pytest.fixture(params=SERVICES, ids=["pmi", "pmix"])
def service(request):
    if request.param[1] == PMIX and not pathlib.Path(binary("lockstep-pmix")).exists():
        pytest.skip("lockstep-pmix was not built: there is no OpenPMIx")
    return request.param


@pytest.fixture
def pmix():
    if not pathlib.Path(binary("lockstep-pmix")).exists():
        pytest.skip("lockstep-pmix was not built: there is no OpenPMIx")


def start(folder, program, spec, machines=2, options=()):
    job = folder / "job.yaml"
    job.write_text(yaml.safe_dump({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "ranks"},
        "spec": {"image": "example.com/a:1", "numMachines": machines, "processesPerMachine": 2,
                 "command": [sys.executable, str(HERE / program), str(folder)], **spec}}))
    return Run(folder, *options, str(job))


def servers(run):
    """The PMIx servers of a run's agents, those of a generation before those that wait for one."""
    found, waiting = [], [run.process.pid]
    while waiting:
        pid = waiting.pop()
        waiting += processes.children(pid)
        if processes.name(pid) == "lockstep-pmix":
            found.append(pid)
    return sorted(found, key=processes.started)


def wait_met(folder, generation, count=4):
    """Every rank of this generation has found all others."""
    wait_until(lambda: len(list(folder.glob(f"rank-{generation}-*"))) == count,
               f"{count} ranks of {generation} to meet", patience=120)


def test_pmi_ranks_meet_and_next_generation_starts_with_empty_table(tmp_path):
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


def test_pmix_ranks_meet_and_next_generation_gets_new_servers(pmix, tmp_path):
    run = start(tmp_path, "pmix_program.py", PMIX, machines=3)
    wait_met(tmp_path, "1-1", 6)
    first = servers(run)[:3]
    os.kill(run.wait_ranks(6)[2][0], signal.SIGKILL)
    wait_met(tmp_path, "1-2", 6)
    second = servers(run)
    assert len(first) == 3 and not set(first) & set(second)
    (tmp_path / "go").touch()
    code, _, output = run.finish()
    assert code == 0, output
    assert "rank 2 on machine 1 was killed by SIGKILL" in output, output
    spaces = {file.read_text() for file in tmp_path.glob("rank-*")}
    assert len(spaces) == 2, "one a generation"
    assert not any(processes.alive(pid) for pid in first + second)


def test_run_names_killed_pmix_server_and_restarts_the_gang(pmix, tmp_path):
    run = start(tmp_path, "pmix_program.py", PMIX)
    wait_met(tmp_path, "1-1")
    os.kill(servers(run)[0], signal.SIGKILL)
    wait_met(tmp_path, "1-2")
    (tmp_path / "go").touch()
    code, _, output = run.finish()
    assert code == 0, output
    assert re.search(r"the PMIx server on machine \d was killed by SIGKILL", output), output


def test_agent_replaces_pmix_server_prepared_for_another_generation(pmix, tmp_path):
    run = start(tmp_path, "pmix_program.py", PMIX)
    wait_met(tmp_path, "1-1")
    wait_until(lambda: len(servers(run)) == 4, "the next servers to wait", patience=120)
    waiting = servers(run)[2:]  # for 1-2, which never comes
    os.kill(processes.parent(run.wait_ranks(4)[0][0]), signal.SIGKILL)  # machine 0's agent
    wait_met(tmp_path, "2-1")
    assert not set(waiting) & set(servers(run))
    (tmp_path / "go").touch()
    code, _, output = run.finish()
    assert code == 0, output


def test_job_fails_if_ranks_end_without_their_agents_mpi_service(service, tmp_path):
    """As Open MPI's do under Pmi, and MPICH's under Pmix: each is a world of its own."""
    program, spec = service
    run = start(tmp_path, program, {**spec, "command": ["true"]})
    code, _, output = run.finish()
    assert code == 78, output
    assert "never began MPI through its agent" in output, output
    assert "write mpi.start: Pmix for Open MPI 4 and 5" in output, output


def test_agent_logs_refused_spawn_once_a_machine(pmix, tmp_path):
    for name in ("spawn", "go"):
        (tmp_path / name).touch()
    code, _, output = start(tmp_path, "pmix_program.py", PMIX, options=["-v"]).finish()
    assert code == 0, output
    assert output.count("called MPI_Comm_spawn, which mpi.start: Pmix refuses") == 2, output


def test_agent_without_lockstep_pmix_names_the_missing_program(tmp_path):
    agent = shutil.copy(binary("lockstep-agent"), tmp_path / "lockstep-agent")
    run = start(tmp_path, "pmix_program.py", PMIX, options=["--agent", agent])
    code, report, output = run.finish()
    assert code == 127, output
    assert re.search(r"the PMIx server on machine \d could not be started", output), output
    assert "mpi.start: Pmix takes lockstep-pmix beside lockstep-agent" in str(report), report


def test_run_reports_abort_code_of_rank_instead_of_its_exit_code(service, tmp_path):
    run = start(tmp_path, *service)
    wait_met(tmp_path, "1-1")
    (tmp_path / "abort").touch()
    wait_met(tmp_path, "1-2")
    (tmp_path / "go").touch()
    code, _, output = run.finish()
    assert code == 0, output
    assert "rank 3 on machine 1 exited with code 7" in output, output


def test_rank_fails_if_process_exits_before_mpi_finalize(service, tmp_path):
    program, spec = service
    (tmp_path / "no-finalize").touch()
    (tmp_path / "go").touch()
    run = start(tmp_path, program, {**spec, "failurePolicy": {"maxRestarts": 0}})
    code, _, output = run.finish()
    assert code != 0, output
    assert "exited with code 0 before MPI_Finalize" in output, output


def test_horovod_ranks_meet_in_each_generation(tmp_path):
    run = start(tmp_path, "horovod_program.py", HOROVOD)
    wait_met(tmp_path, "1-1")
    os.kill(run.wait_ranks(4)[2][0], signal.SIGKILL)
    wait_met(tmp_path, "1-2")
    (tmp_path / "go").touch()
    code, _, output = run.finish()
    assert code == 0, output
