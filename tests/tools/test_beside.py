"""tools/lib/testing/beside.py: suites that compute run beside suites that wait."""

import os
import pathlib
import subprocess
import sys

import pytest
from paths import ROOT
from waiting import wait_until

sys.path.insert(0, str(ROOT / "tools/lib/testing"))

import main
from beside import NICE, Beside
from outcome import Failure, Outcome


def test_work_beside_has_low_priority_and_its_outcomes_and_output_come_back(tmp_path, capfd):
    def work():
        subprocess.run(["echo", "printed by a child"], check=True)
        print("message", file=sys.stderr)
        return [(os.nice(0), Outcome("unit", passed=3, failed=[Failure("a test", "why", ("p", "t"))]))]

    with Beside(work, tmp_path / "log") as beside:
        assert "printed" not in capfd.readouterr().out
        [(priority, outcome)] = beside.result()
    assert priority == os.nice(0) + NICE
    assert outcome == Outcome("unit", passed=3, failed=[Failure("a test", "why", ("p", "t"))])
    printed = capfd.readouterr()
    assert printed.out == "printed by a child\n" and printed.err == "message\n"


@pytest.mark.parametrize("end, said", [(lambda: 1 / 0, "ended with 1"), (lambda: os.kill(os.getpid(), 9), "-9")])
def test_work_that_breaks_is_reported(tmp_path, end, said):
    with Beside(end, tmp_path / "log") as beside, pytest.raises(RuntimeError, match=said):
        beside.result()


def test_what_the_work_started_ends_if_the_other_work_fails(tmp_path):
    ids = tmp_path / "ids"

    def work():
        child = subprocess.Popen(["sleep", "600"])
        ids.with_suffix(".new").write_text(f"{os.getpid()} {child.pid}")
        ids.with_suffix(".new").rename(ids)
        child.wait()

    with pytest.raises(ValueError), Beside(work, tmp_path / "log"):
        wait_until(ids.exists, "the work to start")
        raise ValueError
    worker, child = ids.read_text().split()
    assert not pathlib.Path("/proc", worker).exists()
    wait_until(lambda: not pathlib.Path("/proc", child).exists(), "the end of the work's own process")


@pytest.mark.parametrize("suites, front, beside", [
    (["unit", "integration", "asan"], ["integration"], ["unit", "asan"]),
    (["unit", "fuzz"], ["unit", "fuzz"], []),
    (["slow"], ["slow"], []),
])
def test_suites_that_compute_run_beside_suites_that_wait(suites, front, beside):
    assert main.lanes(suites) == (front, beside)
