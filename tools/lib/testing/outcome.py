"""The outcome of a runner: how many of its tests passed, and which failed.

Runners (googletest.py, pythontest.py, fuzzing.py) make one `Outcome` each. Reruns and the closing
lines (rerun.py, closing.py) know nothing else of a runner.
"""

import dataclasses
import re

# A finding of a sanitizer or of glibc, or an abort of one of our programs, is a fault however seldom.
REPORT = re.compile(
    r"(?:Address|Thread|Leak|Memory|UndefinedBehavior)Sanitizer\b|\bruntime error: |\bdeadly signal\b"
    r"|\bAssertion .* failed|\bterminate called\b|\*\*\* [a-z ]+ detected \*\*\*"
    r"|\b(?:double free|corrupted size|(?:free|malloc|realloc)\(\): )")
# The death of a program whose exit status the runner does not see. Exit codes 137 (SIGKILL) and 138
# (SIGUSR1) are none: tests kill programs on purpose.
DEATH = re.compile(
    r"\b(?:Segmentation fault|core dumped|Bus error|Illegal instruction)\b"
    r"|\bSIG(?:SEGV|ABRT|BUS|ILL|FPE|TRAP|SYS)\b|\bexit(?:ed with)? code 13[2-69]\b")


def report_in(text):
    """The line of `text` that reports a finding or an abort; "" if there is none."""
    return next((line.strip() for line in text.splitlines() if REPORT.search(line)), "")


def crash_in(text):
    """The line that reports a finding, an abort or a death by a signal of a fault; "" if there is none."""
    return report_in(text) or next(
        (line.strip() for line in text.splitlines() if DEATH.search(line)), "")


@dataclasses.dataclass
class Failure:
    """One failed test."""

    name: str  # as the closing lines print it
    output: str = ""  # what the test printed and why it failed
    test: object = None  # what the runner's run_alone() takes; None if the test must not run again
    reason: str = ""  # the first line of the failure, if the runner knows it

    @property
    def first_line(self):
        lines = (line.strip() for line in (self.reason or self.output).splitlines())
        return next((line for line in lines if line), "no output")


@dataclasses.dataclass
class Outcome:
    """What one runner's tests did. `slowest` holds (seconds, name) of each test it can time."""

    suite: str
    passed: int = 0
    skipped: int = 0
    failed: list = dataclasses.field(default_factory=list)  # of Failure
    slowest: list = dataclasses.field(default_factory=list)

    @classmethod
    def broken(cls, suite, what):
        """A runner or a build that failed before it could report tests."""
        return cls(suite, failed=[Failure(what)])
