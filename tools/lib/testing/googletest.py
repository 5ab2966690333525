"""GoogleTest programs, run by ctest.

ctest knows a program as one test. GoogleTest prints the tests inside it, so those are counted, and
a failed one runs again as `PROGRAM --gtest_filter=TEST`.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree

from outcome import Failure, Outcome, crash_in

PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] (\S+)(?:, where .*)? \(\d+ ms\)$", re.MULTILINE)
# A program prints this at its end. Without it the program crashed or was killed.
ENDED = re.compile(r"^\[  PASSED  \] \d+ tests?\.$", re.MULTILINE)
# A failed seed or mutant of the simulator fails each time: it has no clock and no threads.
NEVER_AGAIN = "sim"


class GoogleTests:
    """The GoogleTest programs of the build folder `build` that `select` (options of ctest) names.

    One more program runs at a time than there are cores, because many of them wait for sockets and timers.
    """

    def __init__(self, suite, build, select):
        self.suite = suite
        self._build = pathlib.Path(build)
        self._select = select

    def names(self):
        """Name -> its program in the build folder; "" for a test that is no program of the build."""
        def in_build(path):
            path = pathlib.Path(path)
            return str(path.relative_to(self._build)) if self._build in path.parents else ""

        return {name: in_build(each["command"][0])
                for name, each in self._programs(*self._select).items()}

    def only(self, names):
        """Leaves out all other tests."""
        self._select = [*self._select, "-R", f"^({'|'.join(map(re.escape, sorted(names)))})$"]

    def run(self, results):
        """Runs all of them; their report is `results`/SUITE.xml."""
        report = results / f"{self.suite}.xml"
        with tempfile.TemporaryDirectory(prefix="t.", dir="/tmp") as temporary:
            subprocess.run(
                ["ctest", "--test-dir", str(self._build), "-j", str(os.cpu_count() + 1),
                 "--output-on-failure", *self._select, "--output-junit", str(report),
                 "--test-output-size-passed", "65536", "--test-output-size-failed", "1048576",
                 "--test-output-truncation", "head"],
                env=_environment(temporary))
        if not report.exists():
            return Outcome.broken(self.suite, "ctest did not run to its end")
        return self._read(report)

    def run_alone(self, test, log):
        """Whether `test`, a (program, name), passes by itself. Its output is written to `log`."""
        program, name = test
        known = self._programs()[program]
        with tempfile.TemporaryDirectory(prefix="t.", dir="/tmp") as temporary, open(log, "w") as out:
            try:
                code = subprocess.run(
                    [*known["command"], *([f"--gtest_filter={name}"] if name else [])],
                    cwd=known["folder"], env=_environment(temporary), stdin=subprocess.DEVNULL,
                    stdout=out, stderr=subprocess.STDOUT, timeout=known["timeout"]).returncode
            except subprocess.TimeoutExpired:
                return False
        # A filter that matches no test exits with 0.
        passed = PASSED.search(log.read_text(errors="replace"))
        return code == 0 and bool(passed) and int(passed[1]) > 0

    def _programs(self, *select):
        """Name -> command, folder, timeout in seconds and labels, as ctest knows them."""
        shown = subprocess.run(["ctest", "--test-dir", str(self._build), *select,
                                "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
        found = {}
        for test in json.loads(shown)["tests"]:
            known = {each["name"]: each["value"] for each in test.get("properties", [])}
            found[test["name"]] = {
                "command": test["command"], "folder": known["WORKING_DIRECTORY"],
                "timeout": known.get("TIMEOUT", 1500), "labels": known.get("LABELS", [])}
        return found

    def _read(self, report):
        outcome = Outcome(self.suite)
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name, output = case.get("name"), case.findtext("system-out") or ""
            outcome.slowest.append((float(case.get("time") or 0), f"{self.suite}: {name}"))
            passed = PASSED.search(output)
            if case.find("skipped") is not None:
                outcome.skipped += 1
            elif case.find("failure") is None:
                outcome.passed += int(passed[1]) if passed else 1
            else:
                outcome.passed += int(passed[1]) if passed else 0
                outcome.failed += self._failures(name, output, float(case.get("time") or 0))
        return outcome

    def _failures(self, program, output, seconds):
        known = self._programs()[program]
        timed_out = seconds >= known["timeout"] - 1
        may_run_again = (NEVER_AGAIN not in known["labels"] and not crash_in(output)
                         and (timed_out or ENDED.search(output)))
        failures, start = [], 0
        for found in FAILED.finditer(output):
            failures.append(Failure(f"{program}: {found[1]}", output[start:found.end()],
                                    (program, found[1]) if may_run_again else None))
            start = found.end()
        # A program that timed out names no test, so all of it runs again.
        again = (program, "") if timed_out and may_run_again else None
        return failures or [Failure(program, output, again, crash_in(output))]


def _environment(temporary):
    return {**os.environ, "TEST_TMPDIR": temporary, "GTEST_BRIEF": "1"}
