"""tools/demo: it takes an installed release of the tree's version, and builds otherwise."""

import os
import re
import subprocess

import pytest
from paths import ROOT

VERSION = re.search(r"^project\(lockstep VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
PROGRAMS = ["lockstep", "lockstep-agent", "lockstep-trainer"]


def demo(folder, versions):
    """Runs it with such programs in PATH, which do nothing and fail, and with a CMake that fails."""
    for name, version in versions.items():
        (folder / name).write_text(f'#!/bin/sh\n[ "$1" != --version ] || exec echo "{name} {version}"\nexit 7\n')
    (folder / "cmake").write_text("#!/bin/sh\nexit 1\n")
    for path in folder.iterdir():
        path.chmod(0o755)
    return subprocess.run([ROOT / "tools/demo"], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})


def test_installed_release_of_this_version_runs_without_a_build(tmp_path):
    done = demo(tmp_path, dict.fromkeys(PROGRAMS, VERSION))
    assert done.returncode == 7 and f"using the installed {tmp_path}/lockstep" in done.stderr
    assert "building" not in done.stderr


@pytest.mark.parametrize("versions", [
    dict.fromkeys(PROGRAMS, "0.0.9"), {"lockstep": VERSION, "lockstep-agent": VERSION, "lockstep-trainer": "0.0.9"}],
    ids=["another release", "another trainer"])
def test_other_versions_are_not_used(tmp_path, versions):
    done = demo(tmp_path, versions)
    assert done.returncode == 1 and "building lockstep" in done.stderr
    assert "CMake could not configure" in done.stderr
