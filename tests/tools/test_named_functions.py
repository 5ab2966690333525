"""tools/lib/named_functions.py: a page of flows names functions that are there."""

import re
import subprocess
import sys

import pytest
from paths import ROOT

SCRIPT = ROOT / "tools/lib/named_functions.py"
FLOWS = ROOT / "docs/internals/flows.md"


def check(file):
    run = subprocess.run([sys.executable, SCRIPT, file], capture_output=True, text=True)
    return run.returncode, run.stdout


def test_each_hop_of_the_flows_is_a_function_of_its_file():
    assert check(FLOWS) == (0, "")
    assert len(re.findall(r"^## ", FLOWS.read_text(), re.MULTILINE)) == 5


@pytest.mark.parametrize(
    "path, name, problem",
    [
        ("base/gone.cc", "Read", "there is no base/gone.cc"),
        ("core/gang/member/member.cc", "Member::OnNothing", "does not define Member::OnNothing"),
        ("core/gang/member/member.cc", "Coordinator::OnMessage", "does not define Coordinator::OnMessage"),
        # These are called there, and defined elsewhere.
        ("operator/policy/decide.cc", "Replace", "does not define Replace"),
        ("core/gang/coordinator/coordinator.cc", "LossOf", "does not define LossOf"),
        ("worker/python/lockstep.py", "commits", "does not define commits"),
    ],
)
def test_a_function_that_is_not_there_is_named(tmp_path, path, name, problem):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n1. `{path}` `{name}`: a hop\n")
    code, output = check(page)
    assert code == 1
    assert output.startswith(f"{page}:3: ")
    assert problem in output


@pytest.mark.parametrize(
    "path, name",
    [
        ("core/gang/member/member.cc", "Member::OnTimer"),
        ("operator/controller/executor.cc", "Executor::Run::WriteStatus"),
        ("operator/policy/decide.cc", "Decide"),
        ("worker/agent/processes/death.h", "DeathOf"),
    ],
)
def test_a_function_that_is_there_passes(tmp_path, path, name):
    page = tmp_path / "page.md"
    page.write_text(f"1. `{path}` `{name}`: a hop\n")
    assert check(page) == (0, "")
