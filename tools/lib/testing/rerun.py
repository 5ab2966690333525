"""Runs each failed test once more, alone: a test that then passes is flaky, not broken.

Failures whose runner says so do not run again: crashes, findings of sanitizers and fuzzers, seeds
and mutants of the simulator. More than LIMIT failures fail the run whatever a second run of each
showed, so then none runs again.
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
    """Makes passed tests of the flaky ones among the failures of `run`, pairs of runner and Outcome.

    Returns them as Flaky. Each failure's output is kept in `results`/failed.
    """
    logs = results / "failed"
    failures = [(runner, outcome, failure)
                for runner, outcome in run for failure in outcome.failed]
    failures = [(*each, _keep(each[1], each[2], logs, n)) for n, each in enumerate(failures, 1)]
    again = [each for each in failures if each[2].test is not None]
    if len(again) > LIMIT:
        say(f"{len(again)} tests failed: more than {LIMIT} fail the run, so none runs once more")
        again = []
    flaky = []
    for runner, outcome, failure, log in again:
        say(f"once more, alone: {failure.name}")
        if runner.run_alone(failure.test, log.with_suffix(".again.log")):
            outcome.failed.remove(failure)
            outcome.passed += 1
            flaky.append(Flaky(outcome.suite, failure, log))
    _write(flaky, results / "flaky.tsv")
    return flaky


def _keep(outcome, failure, logs, number):
    logs.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "_", f"{outcome.suite}-{failure.name}")
    log = logs / f"{number}-{name[:150]}.log"
    log.write_text(failure.output)
    return log


def _write(flaky, file):
    """suite, test, first line of the failure, log file: a line each, separated by tabs."""
    def cell(text):
        return re.sub(r"\s+", " ", str(text))

    file.write_text("".join(
        "\t".join(map(cell, (each.suite, each.failure.name, each.failure.first_line, each.log)))
        + "\n" for each in flaky))
