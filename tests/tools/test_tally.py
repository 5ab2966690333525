"""tools/lib/tally.py: the closing line counts what ran and what failed."""

import pathlib
import subprocess
import sys

TALLY = pathlib.Path(__file__).parents[2] / "tools/lib/tally.py"


def closing_lines(folder, **reports):
    for name, cases in reports.items():
        (folder / f"{name}.xml").write_text(f"<testsuite>{cases}</testsuite>")
    run = subprocess.run([sys.executable, TALLY, folder], capture_output=True, text=True)
    return run.returncode, run.stdout.splitlines()


def test_a_googletest_program_counts_as_the_tests_in_it(tmp_path):
    output = "[==========] 12 tests ran.\n[  PASSED  ] 12 tests.\n"
    case = f'<testcase name="base" classname="base"><system-out>{output}</system-out></testcase>'
    assert closing_lines(tmp_path, unit=case) == (
        0,
        ["unit: 12 passed, 0 failed", "12 passed, 0 failed"],
    )


def test_failed_tests_of_a_program_are_named_once(tmp_path):
    output = (
        "[  FAILED  ] Lease.Ends (3 ms)\n[  PASSED  ] 4 tests.\n"
        "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Lease.Ends\n"
    )
    case = (
        '<testcase name="gang" classname="gang"><failure/>'
        f"<system-out>{output}</system-out></testcase>"
    )
    assert closing_lines(tmp_path, unit=case) == (
        1,
        ["unit: 4 passed, 1 failed", "FAILED unit: gang: Lease.Ends", "4 passed, 1 failed"],
    )


def test_a_program_that_died_counts_as_one_failure(tmp_path):
    case = '<testcase name="gang" classname="gang"><failure message="SEGFAULT"/></testcase>'
    code, lines = closing_lines(tmp_path, unit=case)
    assert (code, lines[-1]) == (1, "0 passed, 1 failed")


def test_reports_are_added_up_and_skipped_tests_are_not_passed(tmp_path):
    code, lines = closing_lines(
        tmp_path,
        unit='<testcase name="a" classname="a"/>',
        integration='<testcase name="b" classname="t"/><testcase name="c"><skipped/></testcase>',
    )
    assert code == 0
    assert lines == [
        "integration: 1 passed, 0 failed, 1 skipped",
        "unit: 1 passed, 0 failed",
        "2 passed, 0 failed",
    ]


def test_nothing_run_is_not_a_success(tmp_path):
    assert closing_lines(tmp_path) == (1, ["0 passed, 0 failed"])
