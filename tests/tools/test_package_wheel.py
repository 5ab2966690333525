"""tools/package wheel and sdist: their contents, a gang that runs from an environment with the wheel, and
what pip makes of each.
"""

import base64
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from paths import MODULES as SOURCES
from paths import ROOT, VERSION
from tls import binary

sys.path[:0] = [str(ROOT / f"tools/lib{folder}") for folder in ("/package", "")]

import wheel as wheel_module

PROGRAMS = {"lockstep", "lockstep-agent", "lockstep-pmix", "kubectl-lockstep"}
MODULES = {"lockstep.py", "lockstep_call.py", "lockstep_gpu.py", "lockstep_hf.py",
           "lockstep_live.py", "lockstep_rejoin.py", "lockstep_torch.py", "lockstep-stubs/__init__.pyi", "lockstep_client/py.typed",
           *(f"lockstep_client/{file.name}"
             for file in (ROOT / "worker/python/lockstep_client").glob("*.py"))}
NAME = f"lockstep_gang-{VERSION}"
INFO = f"{NAME}.dist-info"
SCRIPTS = f"{NAME}.data/scripts"
# Python runs this at its start: a processor for which there is no wheel.
ELSEWHERE = "import platform\nplatform.machine = lambda: 'riscv64'\n"


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


def test_wheel_is_for_glibc_and_musl_and_at_most_12_mebibytes(wheel):
    assert wheel.name == (f"lockstep_gang-{VERSION}-py3-none-manylinux_2_17_x86_64."
                          "manylinux2014_x86_64.musllinux_1_1_x86_64.whl")
    assert wheel.stat().st_size <= 12 << 20


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


def test_small_wheel_holds_the_same_in_fewer_bytes():
    """Of modules alone: programs take a minute."""
    subprocess.run([ROOT / "tools/deps", "--packaging"], check=True)
    files = [(path.name, path.read_bytes(), 0o755 if path.stem == "lockstep" else 0o644)
             for path in sorted(SOURCES.glob("*.py"))]
    normal, small = (wheel_module.archive(files, compress) for compress in (wheel_module.deflate, wheel_module.zopfli))
    assert len(small) < len(normal) and small == wheel_module.archive(files, wheel_module.zopfli)
    with zipfile.ZipFile(io.BytesIO(small)) as zipped:
        assert zipped.testzip() is None
        assert [(info.filename, zipped.read(info), info.external_attr >> 16 & 0o777)
                for info in zipped.infolist()] == files


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


def make_sdist(out):
    done = subprocess.run([ROOT / "tools/package", "sdist", "--out", out], capture_output=True, text=True,
                          env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out / NAME}.tar.gz\n"
    return out / f"{NAME}.tar.gz"


@pytest.fixture(scope="module")
def index(wheel, tmp_path_factory):
    """A folder with the sdist and the wheel, as pip takes it by --find-links."""
    folder = tmp_path_factory.mktemp("index")
    make_sdist(folder)
    shutil.copy(wheel, folder)
    return folder


def pip(*words, **variables):
    """Without any network; setuptools is that of this Python."""
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    environment.pop("PYTHONHOME", None)
    return subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation",
                           *map(str, words)], env=environment, capture_output=True, text=True, timeout=120)


def dry_run(*words, **variables):
    """The URL of what pip would install, or pip's words if that fails."""
    done = pip("--dry-run", "--quiet", "--ignore-installed", "--report", "-", *words, **variables)
    if done.returncode:
        return done.stderr
    [item] = json.loads(done.stdout)["install"]
    return item["download_info"]["url"]


def test_second_sdist_has_the_same_bytes(index, tmp_path):
    assert make_sdist(tmp_path).read_bytes() == (index / f"{NAME}.tar.gz").read_bytes()


def test_sdist_holds_the_modules_of_the_wheel_and_its_metadata(index):
    with tarfile.open(index / f"{NAME}.tar.gz") as tar:
        files = {name.removeprefix(f"{NAME}/") for name in tar.getnames() if tar.getmember(name).isfile()}
        assert files - {"NOTICE"} == {*MODULES, "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.py"}
        about = tar.extractfile(f"{NAME}/PKG-INFO").read().decode()
        assert {member.uname for member in tar} == {"root"}
    assert f"Name: lockstep-gang\nVersion: {VERSION}\n" in about


def test_pip_prefers_the_wheel_of_an_index_that_has_both(index):
    assert dry_run("--find-links", index, "lockstep-gang").endswith(".whl")


def test_pip_takes_each_file_of_the_index(index):
    files = sorted(index.iterdir())
    assert len(files) == 2
    for file in files:
        assert dry_run(file, LOCKSTEP_MODULES_ONLY="1").endswith(file.name)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="there is no wheel for this processor")
def test_sdist_names_the_wheel_where_there_is_one(index):
    said = dry_run(index / f"{NAME}.tar.gz")
    assert ("this source distribution holds the Python modules without the programs: install the wheel for this "
            "computer by `pip install --only-binary lockstep-gang lockstep-gang`") in said, said


def test_sdist_installs_the_modules_where_there_is_no_wheel(index, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(ELSEWHERE)
    done = pip("--target", tmp_path / "site", "--quiet", index / f"{NAME}.tar.gz", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    for name in MODULES:
        assert (tmp_path / "site" / name).read_bytes() == (SOURCES / name).read_bytes()
    program = "import lockstep\ntry:\n    lockstep.run(lockstep.Job('a', command=['true']))\n" \
              "except lockstep.MissingProgram as error:\n    print(error)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path,
                          env={"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path / "site")})
    assert "the program `lockstep` is neither in PATH nor in " in said.stdout
