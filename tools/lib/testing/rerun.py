"""Runs each failed test once more, alone: a test that then passes is flaky, not broken.

Failures whose runner says so do not run again: crashes, findings of sanitizers and fuzzers, seeds
and mutants of the simulator. A run with more than LIMIT flaky tests fails.
"""

import dataclasses
import re

LIMIT = 5


@dataclasses.dataclass
class Flaky:
    """A test that failed once and passed alone."""

    suite: str
    failure: object  # outcome.Failure
    log: object  # path of the first failure's output


def rerun(run, results, say):
    """Takes the flaky tests out of the failures of `run`, pairs of runner and Outcome.

    Returns them as Flaky. They count as passed up to LIMIT; beyond it all of them count as failed.
    """
    logs = results / "rerun"
    flaky = []
    for runner, outcome in run:
        for failure in list(outcome.failed):
            if failure.test is None:
                continue
            logs.mkdir(parents=True, exist_ok=True)
            stem = re.sub(r"[^\w.-]+", "_", f"{outcome.suite}-{failure.name}")[:150]
            first = logs / f"{stem}.first.log"
            first.write_text(failure.output)
            say(f"once more, alone: {failure.name}")
            if runner.run_alone(failure.test, logs / f"{stem}.again.log"):
                flaky.append((outcome, Flaky(outcome.suite, failure, first)))
    if len(flaky) <= LIMIT:
        for outcome, each in flaky:
            outcome.failed.remove(each.failure)
            outcome.passed += 1
    found = [each for _, each in flaky]
    _write(found, results / "flaky.tsv")
    return found


def _write(flaky, file):
    """suite, test, first line of the failure, log file: a line each, separated by tabs."""
    def cell(text):
        return re.sub(r"\s+", " ", str(text))

    file.write_text("".join(
        "\t".join(map(cell, (each.suite, each.failure.name, each.failure.first_line, each.log)))
        + "\n" for each in flaky))
