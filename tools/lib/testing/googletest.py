"""GoogleTest programs, run by ctest.

ctest knows a program as one test and how it ended. GoogleTest writes the tests inside it to a JSON
file at its end. A failed test runs again as `PROGRAM --gtest_filter=TEST`, if its program ended by
itself; a program that ran into its timeout runs again whole.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree

from outcome import Failure, Outcome, report_in

# A line of ctest's output: "3/24 Test  #4: kube ......***Exception: SegFault  1.00 sec"
ENDED = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.*(.*?) +[\d.]+ sec")
PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.MULTILINE)
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
        return {name: str(path.relative_to(self._build)) if self._build in path.parents else ""
                for name, each in self._programs(*self._select).items()
                for path in [self._program_of(each["command"])]}

    def only(self, names):
        """Leaves out all other tests."""
        self._select = [*self._select, "-R", f"^({'|'.join(map(re.escape, sorted(names)))})$"]

    def run(self, results):
        """Runs all of them. `results` gets SUITE.xml and, in googletest-SUITE, GoogleTest's files."""
        report, details = results / f"{self.suite}.xml", results / f"googletest-{self.suite}"
        shutil.rmtree(details, ignore_errors=True)
        ends = {}
        with _temporary() as temporary:
            ctest = subprocess.Popen(
                ["ctest", "--test-dir", str(self._build), "-j", str(os.cpu_count() + 1),
                 "--no-tests=error", "--output-on-failure", *self._select,
                 "--output-junit", str(report), "--test-output-size-passed", "65536",
                 "--test-output-size-failed", str(64 << 20)],
                env={**_environment(temporary), "GTEST_OUTPUT": f"json:{details}/"},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
            for line in ctest.stdout:
                print(line, end="", flush=True)
                if found := ENDED.match(line):
                    ends[found[1]] = found[2].strip()
            code = ctest.wait()
        if not report.exists():
            return Outcome.broken(self.suite, f"ctest ended with {code} and wrote no report")
        outcome = self._read(report, details, ends)
        if code and not outcome.failed:
            outcome.failed.append(Failure(f"ctest ended with {code}"))
        return outcome

    def run_alone(self, test, log):
        """Whether `test`, a (program, name), passes by itself. Its output is written to `log`."""
        program, name = test
        known = self._programs()[program]
        with _temporary() as temporary, open(log, "w") as out:
            try:
                code = subprocess.run(
                    [*known["command"], *([f"--gtest_filter={name}"] if name else [])],
                    cwd=known["folder"], env={**_environment(temporary), **known["environment"]},
                    stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                    timeout=known["timeout"]).returncode
            except subprocess.TimeoutExpired:
                return False
        # A filter that matches no test exits with 0.
        passed = PASSED.search(log.read_text(errors="replace"))
        return code == 0 and bool(passed) and int(passed[1]) > 0

    def _program_of(self, command):
        """What a command of ctest runs. An emulator comes before the program of another architecture."""
        words = [pathlib.Path(word) for word in command] or [pathlib.Path()]
        return next((word for word in words if self._build in word.parents), words[0])

    def _programs(self, *select):
        """Name -> command, folder, timeout in seconds, labels and environment, as ctest knows them."""
        shown = subprocess.run(["ctest", "--test-dir", str(self._build), *select,
                                "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
        found = {}
        for test in json.loads(shown)["tests"]:
            known = {each["name"]: each["value"] for each in test.get("properties", [])}
            found[test["name"]] = {
                "command": test.get("command", []), "folder": known["WORKING_DIRECTORY"],
                "timeout": known.get("TIMEOUT", 1500), "labels": known.get("LABELS", []),
                "environment": dict(each.split("=", 1) for each in known.get("ENVIRONMENT", []))}
        return found

    def _read(self, report, details, ends):
        outcome = Outcome(self.suite)
        programs = self._programs()
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name, known = case.get("name"), programs[case.get("name")]
            outcome.slowest.append((float(case.get("time") or 0), f"            {self.suite}: {name}"))
            command = self._program_of(known["command"])
            tests = _tests(details / f"{command.name}.json")
            failed = case.find("failure") is not None or case.find("skipped") is not None
            # GoogleTest's own main writes the file; another command has no tests inside.
            if tests is None and not failed and not command.name.endswith("_test"):
                outcome.passed += 1
                continue
            passed, skipped, wrong = tests or (0, 0, {})
            outcome.passed += passed
            outcome.skipped += skipped
            if failed or wrong or tests is None:
                output = case.findtext("system-out") or ""
                end = ends.get(name, "did not run")
                outcome.failed += self._failures(name, output, end, wrong, known["labels"])
        return outcome

    def _failures(self, program, output, end, wrong, labels):
        """`end` is ctest's word for how the program ended, `wrong` its failed tests with their messages."""
        excusable = NEVER_AGAIN not in labels and not report_in(output)
        if end == "***Failed" and wrong:
            return [Failure(f"{program}: {test}", message, (program, test) if excusable else None)
                    for test, message in wrong.items()]
        again = (program, "") if end == "***Timeout" and excusable else None
        return [Failure(program, output, again, report_in(output) or f"the program ended early: {end}")]


def _tests(file):
    """(passed, skipped, failed test -> message) of a program that ran to its end, else None."""
    try:
        suites = json.loads(file.read_text(errors="replace"))["testsuites"]
    except (OSError, ValueError):
        return None
    passed = skipped = 0
    failed = {}
    for suite in suites:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            if "failures" in test:
                failed[name] = "\n".join(each["failure"] for each in test["failures"])
            elif test.get("result") == "SKIPPED":
                skipped += 1
            elif test.get("status") == "RUN":
                passed += 1
    return passed, skipped, failed


def _temporary():
    # What a test has left running may still write there.
    return tempfile.TemporaryDirectory(prefix="t.", dir="/tmp", ignore_cleanup_errors=True)


def _environment(temporary):
    return {**os.environ, "TEST_TMPDIR": temporary, "GTEST_BRIEF": "1"}
