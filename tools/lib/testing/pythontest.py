"""Python tests, run by pytest.

tests/lib/report_properties.py adds properties to the tests of a report: `cpu`, and to a failed one `node`,
its node id, and `crash`, why it must not run again.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

from outcome import Failure, Outcome

RAN = (0, 1)  # pytest's exit codes: all passed, some failed
NO_TESTS = 5
PATIENCE = 3600  # seconds for a suite; its tests have limits of their own


class PythonTests:
    """The tests of `paths`, relative to `folder`, that fit the marks.

    `at_once` files run at a time. What a session starts once, as a cluster, is started once for each
    of them.
    """

    def __init__(self, suite, folder, paths, marks="", at_once=1, variables=None,
                 python=sys.executable):
        self.suite = suite
        self._python = python
        self._folder = pathlib.Path(folder)
        self._paths = list(paths)
        self._narrowed = False
        self._marks = marks
        self._at_once = at_once
        self._variables = variables or {}

    def names(self):
        """The files of tests."""
        found = []
        for path in self._paths:
            path = self._folder / path.partition("::")[0]
            found += [path] if path.is_file() else sorted(path.rglob("test_*.py"))
        return [str(each.relative_to(self._folder)) for each in found]

    def only(self, names):
        """Leaves out all other files."""
        self._narrowed = True
        whole = [path for path in self._paths if path.partition("::")[0] in names]
        self._paths = whole or sorted(names)

    def run(self, results):
        """Runs all of them; their report is `results`/SUITE.xml."""
        report, options = results / f"{self.suite}.xml", []
        if self._at_once > 1:
            # In order of their paths: the folders that take longest come first. By number of tests
            # a file with one long test would come last, and run while the other core is idle.
            options = ["-n", str(self._at_once), "--dist", "loadfile", "--no-loadscope-reorder"]
        code = self._pytest(report, "-m", self._marks, *options, *self._paths)
        if not report.exists():
            return Outcome.broken(self.suite, f"pytest ended with {code} and wrote no report")
        outcome = self._read(report)
        ran = code in RAN and bool(code) == bool(outcome.failed)
        empty = code == NO_TESTS and self._narrowed
        if not ran and not empty and all(each.test for each in outcome.failed):
            outcome.failed.append(Failure(f"pytest ended with {code}"))
        return outcome

    def run_alone(self, test, log):
        """Whether the test with this node id passes by itself. Its output is written to `log`."""
        report = log.with_suffix(".xml")
        with open(log, "w") as out:
            code = self._pytest(report, test, stdout=out, stderr=subprocess.STDOUT)
        return code == 0 and report.exists() and self._read(report).passed == 1

    def _pytest(self, report, *arguments, **options):
        """pytest's exit code. What the tests leave in their folders stays if one has failed."""
        # Paths of sockets are at most 107 bytes long.
        temporary = tempfile.mkdtemp(prefix="t.", dir="/tmp")
        try:
            code = subprocess.run(
                [self._python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", temporary,
                 "--junitxml", str(report), *arguments],
                cwd=self._folder, env={**os.environ, **self._variables}, stdin=subprocess.DEVNULL,
                timeout=PATIENCE, **options).returncode
        except subprocess.TimeoutExpired:
            code = f"a timeout of {PATIENCE} s"
        if code in (0, NO_TESTS):
            shutil.rmtree(temporary, ignore_errors=True)
        return code

    def _read(self, report):
        outcome = Outcome(self.suite)
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = "::".join(filter(None, [case.get("classname"), case.get("name")]))
            cpu = next((each.get("value") for each in case.iter("property")
                        if each.get("name") == "cpu"), "?")
            outcome.slowest.append((float(case.get("time") or 0), f"{cpu:>5} s CPU  {self.suite}: {name}"))
            wrong = [each for each in case if each.tag in ("failure", "error")]
            if wrong:
                _add(outcome.failed, _failure(name, case, wrong))
            elif case.find("skipped") is not None:
                outcome.skipped += 1
            else:
                outcome.passed += 1
        return outcome


def _add(failures, failure):
    """A test that fails, and then fails in a fixture's end, too, is reported twice and counts once."""
    for each in failures:
        if each.name == failure.name:
            each.output += f"\n{failure.output}"
            each.test = each.test and failure.test
            return
    failures.append(failure)


def _failure(name, case, wrong):
    found = [(each.get("name"), each.get("value")) for each in case.iter("property")]
    node = next((value for name, value in found if name == "node"), None)
    crash = next((value for name, value in found if name == "crash" and value), "")
    printed = [each.text or "" for each in case if each.tag in ("system-out", "system-err")]
    output = "\n".join([each.text or each.get("message") or "" for each in wrong] + printed)
    return Failure(name, output, None if crash else node,
                   crash or wrong[0].get("message") or "")
