"""Adds up the test reports that ctest and pytest leave: tally.py FOLDER

Reads each FOLDER/*.xml (JUnit), prints a line for each, the names of what failed, and last of all
`N passed, N failed`. A GoogleTest program, which ctest reports as one test, counts as the tests in
it. Exits with 1 if anything failed or nothing ran.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] (\S+)(?:, where .*)? \(\d+ ms\)$", re.MULTILINE)


class Tally:
    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failed = []

    def add(self, case):
        """Counts one <testcase>: of pytest, or a whole program of ctest's."""
        name = "::".join(filter(None, [case.get("classname"), case.get("name")]))
        if case.get("classname") == case.get("name"):  # ctest writes the name twice
            name = case.get("name")
        output = case.findtext("system-out") or ""
        inner_passed = PASSED.search(output)
        inner_failed = FAILED.findall(output)
        bad = case.find("failure") is not None or case.find("error") is not None
        if case.find("skipped") is not None:
            self.skipped += 1
        elif bad:
            self.failed += [f"{name}: {test}" for test in inner_failed] or [name]
            self.passed += int(inner_passed.group(1)) if inner_passed else 0
        else:
            self.passed += int(inner_passed.group(1)) if inner_passed else 1


def tally(report):
    result = Tally()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        result.add(case)
    return result


def main(folder):
    passed, failed = 0, []
    for report in sorted(pathlib.Path(folder).glob("*.xml")):
        result = tally(report)
        skipped = f", {result.skipped} skipped" if result.skipped else ""
        print(f"{report.stem}: {result.passed} passed, {len(result.failed)} failed{skipped}")
        passed += result.passed
        failed += [f"{report.stem}: {name}" for name in result.failed]
    for name in failed:
        print(f"FAILED {name}")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
