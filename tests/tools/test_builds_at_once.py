"""tools/lib/common.sh: two suites that build one preset at once wait for each other."""

import os
import shutil
import subprocess

import pytest
from paths import ROOT

# A cmake that fails while another one works in the same tree.
CMAKE = """#!/bin/sh
mkdir "$BUSY" || { echo "two at once"; exit 1; }
sleep 0.05
rmdir "$BUSY"
case "$*" in *broken*) echo "does not compile"; exit 1 ;; esac
"""


@pytest.fixture
def call(tmp_path):
    """Starts a function of common.sh in a tree of its own, with that cmake."""
    (tmp_path / "tools/lib").mkdir(parents=True)
    shutil.copy(ROOT / "tools/lib/common.sh", tmp_path / "tools/lib")
    (tmp_path / "cmake").write_text(CMAKE)
    (tmp_path / "cmake").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "BUSY": str(tmp_path / "busy")}

    def start(*words, after=""):
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", f'source "$1"; "${{@:2}}"{after}', "test",
             tmp_path / "tools/lib/common.sh", *words],
            env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    return start


def test_builds_and_configurations_of_one_preset_wait_for_each_other(call):
    calls = [call("build", "release"), call("build", "release", "lockstep"), call("configure", "release")]
    said = [each.communicate(timeout=60)[0] for each in calls]
    assert [each.returncode for each in calls] == [0, 0, 0], said


def test_a_build_that_fails_is_reported_and_lets_the_next_one_in(call):
    broken = call("build", "release", "broken")
    assert "does not compile" in broken.communicate(timeout=60)[0] and broken.returncode == 1
    assert call("build", "release").wait(60) == 0


def test_a_preset_that_cannot_be_configured_ends_the_script(call):
    broken = call("configure", "broken", after=' || true; echo "goes on"')
    said = broken.communicate(timeout=60)[0]
    assert "could not configure preset broken" in said and "goes on" not in said and broken.returncode == 1
