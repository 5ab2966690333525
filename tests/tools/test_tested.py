"""tools/lib/testing/tested.py: the record of suites that passed on a commit."""

import json
import subprocess
import sys

import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "tools/lib/testing"))

import tested
from outcome import Failure, Outcome


def test_suite_that_passed_is_recorded_with_all_of_its_runners(tmp_path):
    tested.write("c1", ["arm64", "unit"], [Outcome("arm64", passed=2), Outcome("arm64-guests", passed=3, skipped=1)],
                 tmp_path)
    record = json.loads((tmp_path / "c1/arm64.json").read_text())
    assert record["passed"] == 5 and record["skipped"] == 1
    assert tested.missing("c1", ["arm64", "unit"], tmp_path) == ["unit"]
    assert tested.missing("c2", ["arm64"], tmp_path) == ["arm64"]


@pytest.mark.parametrize("outcome", [Outcome("unit", passed=9, failed=[Failure("x")]), Outcome("unit"),
                                     Outcome.broken("unit asan", "the suites beside ended with 1")])
def test_suite_that_failed_or_ran_nothing_loses_its_record(tmp_path, outcome):
    tested.write("c1", ["unit"], [Outcome("unit", passed=9)], tmp_path)
    tested.write("c1", ["unit"], [outcome], tmp_path)
    assert tested.missing("c1", ["unit"], tmp_path) == ["unit"]


def test_suite_that_did_not_run_keeps_its_record(tmp_path):
    tested.write("c1", ["unit"], [Outcome("unit", passed=9)], tmp_path)
    tested.write("c1", ["slow"], [Outcome("slow", passed=1)], tmp_path)
    assert tested.missing("c1", ["unit", "slow"], tmp_path) == []


def test_tree_with_something_uncommitted_has_no_commit_to_record(tmp_path):
    for words in (["init", "-q"], ["-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "-q",
                                   "--allow-empty", "-m", "Begin"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert len(tested.commit_of(tmp_path)) == 40
    (tmp_path / "new").write_text("x")
    assert tested.commit_of(tmp_path) is None
    assert tested.commit_of(tmp_path / "nowhere") is None
