"""tools/package wheel: the wheel's contents, and a gang that runs from an environment with it."""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest
from paths import ROOT
from tls import binary

VERSION = re.search(r"^project\(lockstep VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(),
                    re.MULTILINE)[1]
PROGRAMS = {"lockstep", "lockstep-agent", "lockstep-pmix", "kubectl-lockstep"}
MODULES = {"lockstep.py", "lockstep_call.py", "lockstep_gpu.py", "lockstep_hf.py",
           "lockstep_live.py", "lockstep_rejoin.py", "lockstep_torch.py", "lockstep-stubs/__init__.pyi", "lockstep_client/py.typed",
           *(f"lockstep_client/{file.name}"
             for file in (ROOT / "worker/python/lockstep_client").glob("*.py"))}
INFO = f"lockstep_gang-{VERSION}.dist-info"
SCRIPTS = f"lockstep_gang-{VERSION}.data/scripts"


def package(out):
    if pathlib.Path(binary("lockstep")).parent != ROOT / "build/release/bin":
        pytest.skip("only what the preset release makes is shipped")
    done = subprocess.run([ROOT / "tools/package", "wheel", "--no-build", "--out", out],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.strip())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return package(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """The bin/ of a virtual environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    # pip of this Python installs into the other one: without ensurepip, which takes seconds.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    subprocess.run([sys.executable, "-m", "pip", "--python", folder / "bin/python", "install",
                    "--no-index", "--quiet", "--disable-pip-version-check", wheel], check=True)
    return folder / "bin"


def lockstep(environment, path, *arguments):
    variables = {**os.environ, "PATH": f"{path}:/usr/bin:/bin"}
    variables.pop("PYTHONPATH", None)
    return subprocess.run([environment / "lockstep", *arguments], capture_output=True, text=True,
                          env=variables, timeout=60, check=False)


def test_wheel_is_for_glibc_and_musl_and_at_most_12_megabytes(wheel):
    assert wheel.name == (f"lockstep_gang-{VERSION}-py3-none-manylinux_2_17_x86_64."
                          "manylinux2014_x86_64.musllinux_1_1_x86_64.whl")
    assert wheel.stat().st_size <= 12_000_000


def test_wheel_holds_static_programs_modules_and_the_licence(wheel):
    with zipfile.ZipFile(wheel) as zipped:
        assert zipped.testzip() is None
        names = set(zipped.namelist())
        assert {name for name in names if not name.startswith("lockstep_gang-")} == MODULES
        assert {name for name in names if SCRIPTS in name} == {f"{SCRIPTS}/{p}" for p in PROGRAMS}
        assert f"{INFO}/LICENSE" in names
        for program in PROGRAMS:
            assert zipped.getinfo(f"{SCRIPTS}/{program}").external_attr >> 16 & 0o111


def test_record_lists_every_file_with_its_sum(wheel):
    with zipfile.ZipFile(wheel) as zipped:
        rows = [line.split(",") for line in zipped.read(f"{INFO}/RECORD").decode().splitlines()]
        assert {row[0] for row in rows} == set(zipped.namelist())
        for path, digest, size in rows:
            if path == f"{INFO}/RECORD":
                continue
            data = zipped.read(path)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={expected}", len(data)), path


def test_metadata_names_the_distribution_and_its_pythons(wheel):
    with zipfile.ZipFile(wheel) as zipped:
        head, body = zipped.read(f"{INFO}/METADATA").decode().split("\n\n", 1)
    for line in ("Name: lockstep-gang", f"Version: {VERSION}", "Requires-Python: >=3.8",
                 "License: Apache-2.0", "Description-Content-Type: text/markdown",
                 "Provides-Extra: client", 'Requires-Dist: kubernetes>=29; extra == "cluster"'):
        assert line in head.splitlines()
    assert body == (ROOT / "worker/python/README.md").read_text()


def test_second_wheel_has_the_same_bytes(wheel, tmp_path):
    assert package(tmp_path).read_bytes() == wheel.read_bytes()


def test_gang_of_two_machines_runs_from_an_environment_with_the_wheel(environment):
    done = lockstep(environment, environment, "run", "-m", "2", "-p", "2", "--no-table", "--", "python",
                    "-c", "import lockstep, os; print('rank', os.environ['RANK'], lockstep.__file__)")
    assert done.returncode == 0, done.stderr
    ranks = sorted(re.findall(r"rank (\d) (\S+)", done.stdout))
    assert [rank for rank, _ in ranks] == ["0", "1", "2", "3"]
    assert {file for _, file in ranks} == {
        str(next(environment.parent.glob("lib/python3*/site-packages")) / "lockstep.py")}
    assert "hint: python" not in done.stderr


def test_client_runs_a_job_from_an_environment_with_the_wheel(environment):
    program = """\
import lockstep
job = lockstep.Job("gpt", machines=2, command=["sh", "-c", "exit $RANK"], prestart="Never",
                   failure_policy=lockstep.FailurePolicy(max_restarts=0))
try:
    lockstep.run(job, echo=False).wait(timeout=60)
except lockstep.JobFailed as failure:
    print(failure.rank, failure.exit_code)
"""
    done = subprocess.run([environment / "python", "-c", program], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin"}, timeout=60, check=False)
    assert done.stdout == "1 1\n", done.stderr


def test_command_with_another_python_gets_a_hint(environment):
    done = lockstep(environment, "/usr/bin", "run", "--no-table", "--", "python3", "-c", "")
    assert done.returncode == 0, done.stderr
    assert re.search(rf"hint: python3 is \S+, which lacks the modules of {environment.parent}; activate "
                     rf"that environment, or write {environment}/python3", done.stderr)
    quiet = lockstep(environment, "/usr/bin", "run", "--no-table", "--no-hints", "--", "python3", "-c", "")
    assert "hint: python3" not in quiet.stderr


def test_kubectl_plugin_is_the_same_program_through_a_link(environment, tmp_path):
    link = tmp_path / "kubectl-lockstep"
    link.symlink_to(environment / "kubectl-lockstep")
    done = subprocess.run([link, "--version"], capture_output=True, text=True, check=False)
    assert done.stdout == f"lockstep {VERSION}\n", done.stderr
