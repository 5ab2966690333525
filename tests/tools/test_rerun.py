"""tools/lib/testing: a failed test runs once more, alone, unless its failure is a fault in any case."""

import pathlib
import subprocess
import sys

import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "tools/lib/testing"))

from closing import closing
from googletest import GoogleTests
from pythontest import PythonTests
from rerun import rerun

# A test that fails as long as its mark is not there, and leaves it.
HEAD = """
import pathlib, subprocess, sys
def first_time(name):
    mark = pathlib.Path(__file__).with_name(name)
    return not mark.exists() and not mark.touch()
"""
ONCE = """
def test_once_{n}():
    assert not first_time("{n}"), "too early"
"""
PASSES = "def test_passes(): pass\n"
# GoogleTest's own, with the same mark; each program has the tests that its name says.
GOOGLETEST = """
#include <gtest/gtest.h>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
bool FirstTime(const std::string& name) {
  const std::string mark = std::string(MARKS) + "/" + name;
  if (std::ifstream(mark)) return false;
  std::ofstream(mark) << "x";
  return true;
}
TEST(Mixed, Passes) {}
#if defined ALWAYS
TEST(Mixed, FailsAlways) { ADD_FAILURE() << "wrong each time"; }
TEST(Mixed, FailsOnce) { EXPECT_FALSE(FirstTime("gtest")) << "too early"; }
#elif defined SANITIZED
TEST(Mixed, OverflowsOnce) {
  volatile int most = 2147483647;
  if (FirstTime("overflow")) most = most + 1;
}
#elif defined DIES
TEST(Mixed, DiesOnce) { if (FirstTime("dies")) std::raise(SIGSEGV); }
#elif defined DIES_AT_ITS_END
struct AtEnd { ~AtEnd() { if (FirstTime("end")) std::raise(SIGSEGV); } } at_end;
TEST(Mixed, FailsOnce) { EXPECT_FALSE(FirstTime("gtest")) << "too early"; }
#elif defined LEAVES
TEST(Mixed, Leaves) { if (FirstTime("leaves")) std::exit(0); }
#elif defined HANGS
TEST(Mixed, FailsOnce) { EXPECT_FALSE(FirstTime("gtest")) << "too early"; }
TEST(Mixed, HangsAlways) { for (;;) {} }
#endif
"""


def run_all(tmp_path, *runners):
    """(whether the run passed, its closing lines, the flaky tests)."""
    results = tmp_path / "results"
    results.mkdir()
    run = [(each, each.run(results)) for each in runners]
    flaky = rerun(run, results, lambda text: None)
    lines, passed = closing([outcome for _, outcome in run], flaky)
    return passed, lines, flaky


@pytest.fixture
def python_suite(tmp_path):
    """Makes a suite of Python tests as it stands under tests/, with the same conftest hook."""
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(
        f"import sys; sys.path.insert(0, {str(ROOT / 'tests/lib')!r})\n"
        "from report_properties import pytest_runtest_makereport, pytest_runtest_setup\n")

    def make(*tests, at_once=1, **variables):
        (folder / "test_sample.py").write_text(HEAD + "".join(tests))
        return PythonTests("sample", folder, ["test_sample.py"], at_once=at_once, variables=variables)

    return make


@pytest.fixture
def programs(tmp_path):
    """Builds one of the GoogleTest programs, and a folder from which ctest runs it."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "sample.cc").write_text(GOOGLETEST)

    def make(name, *options, label="unit", emulator=""):
        build = folder / "build"
        (build / "bin").mkdir(parents=True)
        program = build / "bin/sample_test"
        if name != "MISSING":
            subprocess.run(["clang++-19", "-O0", f"-D{name}", f'-DMARKS="{folder}"', *options,
                            folder / "sample.cc", "-o", program, "-lgtest", "-lgtest_main"], check=True)
        (build / "CTestTestfile.cmake").write_text(
            f'add_test(sample {emulator} "{program}")\n'
            f'set_tests_properties(sample PROPERTIES LABELS "{label}" TIMEOUT 5'
            f' WORKING_DIRECTORY "{folder}")\n')
        return GoogleTests("sample", build, [])

    return make


def test_a_test_that_always_fails_fails_the_run(tmp_path, python_suite):
    suite = python_suite(PASSES, "def test_fails(): assert False, 'wrong each time'\n")
    passed, lines, flaky = run_all(tmp_path, suite)
    assert not passed and not flaky
    assert lines[-2:] == ["FAILED sample: test_sample::test_fails", "1 passed, 1 failed"]


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_test_that_fails_once_is_flaky_and_counts_as_passed(tmp_path, python_suite, at_once):
    passed, lines, flaky = run_all(tmp_path, python_suite(PASSES, ONCE.format(n=1), at_once=at_once))
    assert passed and lines[-1] == "2 passed, 0 failed"
    assert "flaky:" in lines and "  sample: test_sample::test_once_1" in lines
    assert any("too early" in line for line in lines)
    suite, test, first_line, log = (tmp_path / "results/flaky.tsv").read_text().strip().split("\t")
    assert (suite, test) == ("sample", "test_sample::test_once_1")
    assert "too early" in first_line and "too early" in pathlib.Path(log).read_text()


def test_five_flaky_tests_pass_and_six_fail_the_run(tmp_path, python_suite):
    five = run_all(tmp_path, python_suite(*(ONCE.format(n=n) for n in range(5))))
    assert five[0] and len(five[2]) == 5 and five[1][-1] == "5 passed, 0 failed"
    (tmp_path / "six").mkdir()
    passed, lines, _ = run_all(
        tmp_path / "six", python_suite(PASSES, *(ONCE.format(n=n) for n in range(10, 16))))
    assert not passed and lines[-1] == "1 passed, 6 failed"


def test_suites_are_added_up_and_skipped_tests_are_not_passed(tmp_path, python_suite, programs):
    suite = python_suite(PASSES, "def test_skipped(): import pytest; pytest.skip('no GPU')\n")
    passed, lines, _ = run_all(tmp_path, programs("PASSES"), suite)
    assert passed and lines[:2] == [
        "sample: 1 passed, 0 failed", "sample: 1 passed, 0 failed, 1 skipped"]
    assert lines[-1] == "2 passed, 0 failed"


def test_tests_of_a_program_that_an_emulator_runs_count_and_run_again_one_by_one(tmp_path, programs):
    suite = programs("ALWAYS", emulator="/usr/bin/env EMULATED=1")
    assert suite.names() == {"sample": "bin/sample_test"}
    passed, lines, flaky = run_all(tmp_path, suite)
    assert not passed and lines[-1] == "2 passed, 1 failed"
    assert [each.failure.name for each in flaky] == ["sample: Mixed.FailsOnce"]


def test_a_failure_in_a_fixtures_end_runs_again(tmp_path, python_suite):
    passed, lines, flaky = run_all(tmp_path, python_suite(
        "import pytest\n@pytest.fixture\ndef left():\n    yield\n    assert not first_time('left')\n"
        "def test_leaves(left): pass\n"))
    assert passed and [each.failure.name for each in flaky] == ["test_sample::test_leaves"]


def test_a_test_that_fails_in_its_fixtures_end_too_counts_once(tmp_path, python_suite):
    passed, lines, flaky = run_all(tmp_path, python_suite(
        "import pytest\n@pytest.fixture\ndef left():\n    yield\n    assert False, 'left'\n"
        "def test_fails(left): assert False, 'wrong each time'\n"))
    assert not passed and not flaky and lines[-1] == "0 passed, 1 failed"


def test_a_program_of_ours_that_dies_of_a_fault_is_not_excused(tmp_path, python_suite):
    bin = tmp_path / "bin"
    bin.mkdir()
    program = bin / "lockstep"
    program.write_text("#!/bin/sh\nkill -SEGV $$\n")
    program.chmod(0o755)
    passed, lines, flaky = run_all(tmp_path, python_suite(
        f"def test_dies():\n    if first_time('died'):\n"
        f"        subprocess.run([{str(program)!r}], check=True)\n", LOCKSTEP_BIN=str(bin)))
    assert not passed and not flaky
    assert lines[-1] == "0 passed, 1 failed"


def test_a_sanitizers_report_in_what_was_printed_is_not_excused(tmp_path, python_suite):
    passed, _, flaky = run_all(tmp_path, python_suite(
        "def test_prints():\n    if first_time('printed'):\n"
        "        print('WARNING: ThreadSanitizer: data race (pid=1)')\n        assert False\n"))
    assert not passed and not flaky


def test_exit_code_of_a_killed_program_in_the_output_does_not_stop_the_rerun(tmp_path, python_suite):
    passed, _, flaky = run_all(tmp_path, python_suite(
        "def test_prints():\n    if first_time('printed'):\n"
        "        print('machine 1 ended with exit code 137')\n        assert False\n"))
    assert passed and len(flaky) == 1


def test_a_crash_of_a_program_that_tests_share_is_not_excused(tmp_path, python_suite):
    bin = tmp_path / "bin"
    bin.mkdir()
    program = bin / "lockstep"
    program.write_text("#!/bin/sh\nkill -SEGV $$\n")
    program.chmod(0o755)
    passed, _, flaky = run_all(tmp_path, python_suite(
        "import pytest\n@pytest.fixture(scope='module')\ndef shared():\n"
        f"    return subprocess.Popen(['env', {str(program)!r}])\n"
        "def test_starts(shared): shared.wait()\n"
        "def test_uses(shared): assert not first_time('used')\n", LOCKSTEP_BIN=str(bin)))
    assert not passed and not flaky


def test_an_assertion_in_setup_is_not_excused_by_a_failure_in_teardown(tmp_path, python_suite):
    passed, _, flaky = run_all(tmp_path, python_suite(
        "import pytest\n@pytest.fixture(autouse=True)\ndef after():\n    yield\n"
        "    assert not first_time('after')\n"
        "@pytest.fixture\ndef before(after):\n    if first_time('before'):\n"
        "        raise RuntimeError(\"Assertion `x' failed.\")\n"
        "def test_uses(before): pass\n"))
    assert not passed and not flaky


def test_a_session_that_leaves_in_its_middle_fails_the_run(tmp_path, python_suite):
    passed, _, _ = run_all(tmp_path, python_suite(
        ONCE.format(n=1), "def test_leaves():\n    import pytest; pytest.exit('enough', returncode=0)\n",
        "def test_fails(): assert False\n"))
    assert not passed


def test_a_folder_that_is_not_there_fails_the_run(tmp_path):
    assert not run_all(tmp_path, PythonTests("gone", tmp_path, ["no-such-folder"]))[0]


def test_a_module_that_does_not_load_fails_the_run(tmp_path, python_suite):
    passed, lines, flaky = run_all(tmp_path, python_suite("import no_such_module\n"))
    assert not passed and not flaky and lines[-1] == "0 passed, 1 failed"


def test_a_googletest_runs_again_by_its_own_name(tmp_path, programs):
    passed, lines, flaky = run_all(tmp_path, programs("ALWAYS"))
    assert not passed and [each.failure.name for each in flaky] == ["sample: Mixed.FailsOnce"]
    assert "too early" in flaky[0].failure.output and "wrong" not in flaky[0].failure.output
    assert lines[-2:] == ["FAILED sample: sample: Mixed.FailsAlways", "2 passed, 1 failed"]


def test_a_sanitizers_report_does_not_run_again(tmp_path, programs):
    passed, lines, flaky = run_all(
        tmp_path, programs("SANITIZED", "-fsanitize=undefined", "-fno-sanitize-recover=all"))
    assert not passed and not flaky and lines[-1] == "0 passed, 1 failed"


@pytest.mark.parametrize("how", ["DIES", "DIES_AT_ITS_END", "LEAVES", "MISSING"])
def test_a_program_that_does_not_end_as_it_should_does_not_run_again(tmp_path, programs, how):
    passed, lines, flaky = run_all(tmp_path, programs(how))
    assert not passed and not flaky and lines[-1].endswith(", 1 failed")


def test_a_program_that_times_out_runs_again_whole(tmp_path, programs):
    passed, lines, flaky = run_all(tmp_path, programs("HANGS"))
    assert not passed and not flaky and lines[-2:] == ["FAILED sample: sample", "0 passed, 1 failed"]


def test_a_seed_of_the_simulator_does_not_run_again(tmp_path, programs):
    passed, lines, flaky = run_all(tmp_path, programs("ALWAYS", label="sim"))
    assert not passed and not flaky


def test_nothing_run_is_not_a_success(tmp_path):
    assert closing([], []) == (["0 passed, 0 failed"], False)
