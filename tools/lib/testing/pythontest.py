"""Python tests, run by pytest.

tests/lib/crash_record.py adds two properties to each failed test of a report: `node`, its node id,
and `crash`, why it must not run again.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

from outcome import Failure, Outcome

NO_TESTS = 5  # pytest's exit code


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
        self._paths = [path for path in paths if (self._folder / path.partition("::")[0]).exists()]
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
        whole = [path for path in self._paths if path.partition("::")[0] in names]
        self._paths = whole or sorted(names)

    def run(self, results):
        """Runs all of them; their report is `results`/SUITE.xml."""
        if not self._paths:
            return Outcome(self.suite)
        report, options, temporary = results / f"{self.suite}.xml", [], None
        if self._at_once > 1:
            # Paths of sockets are at most 107 bytes long.
            temporary = tempfile.mkdtemp(prefix="t.", dir="/tmp")
            options = ["-n", str(self._at_once), "--dist", "loadfile", "--basetemp", temporary]
        code = self._pytest(report, "-m", self._marks, *options, *self._paths).returncode
        if code in (0, NO_TESTS) and temporary:
            shutil.rmtree(temporary, ignore_errors=True)
        if not report.exists():
            return Outcome.broken(self.suite, "pytest did not run to its end")
        outcome = self._read(report)
        if code not in (0, NO_TESTS) and not outcome.failed:
            outcome.failed.append(Failure(f"pytest ended with {code}"))
        return outcome

    def run_alone(self, test, log):
        """Whether the test with this node id passes by itself. Its output is written to `log`."""
        report = log.with_suffix(".xml")
        with open(log, "w") as out:
            code = self._pytest(report, test, stdout=out, stderr=subprocess.STDOUT).returncode
        return code == 0 and report.exists() and self._read(report).passed == 1

    def _pytest(self, report, *arguments, **options):
        return subprocess.run(
            [self._python, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "--junitxml", str(report), *arguments],
            cwd=self._folder, env={**os.environ, **self._variables}, stdin=subprocess.DEVNULL,
            **options)

    def _read(self, report):
        outcome = Outcome(self.suite)
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = "::".join(filter(None, [case.get("classname"), case.get("name")]))
            outcome.slowest.append((float(case.get("time") or 0), f"{self.suite}: {name}"))
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
    known = {each.get("name"): each.get("value") for each in case.iter("property")}
    printed = [each.text or "" for each in case if each.tag in ("system-out", "system-err")]
    output = "\n".join([each.text or each.get("message") or "" for each in wrong] + printed)
    crash = known.get("crash", "")
    return Failure(name, output, None if crash else known.get("node"),
                   crash or wrong[0].get("message") or "")
