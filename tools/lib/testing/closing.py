"""The last lines of a run: a line for each suite, the flaky tests, what failed, and the sum."""

SHOWN = 60  # lines of a flaky test's output


def closing(outcomes, flaky):
    """The lines to print, and whether the run passed. Nothing run is not a success."""
    lines = []
    for each in outcomes:
        skipped = f", {each.skipped} skipped" if each.skipped else ""
        lines.append(f"{each.suite}: {each.passed} passed, {len(each.failed)} failed{skipped}")
    if flaky:
        lines.append("flaky:")
    for each in flaky:
        lines.append(f"  {each.suite}: {each.failure.name}")
        output = each.failure.output.splitlines()
        lines += [f"    {line}" for line in output[-SHOWN:]]
        lines.append(f"    (its first run; all of it is in {each.log})")
    failed = [f"FAILED {each.suite}: {failure.name}" for each in outcomes for failure in each.failed]
    passed = sum(each.passed for each in outcomes)
    lines += [*failed, f"{passed} passed, {len(failed)} failed"]
    return lines, passed > 0 and not failed


def slowest(outcomes, count):
    """Lines with the `count` tests that took longest."""
    timed = sorted((each for outcome in outcomes for each in outcome.slowest), reverse=True)
    return [f"{seconds:7.1f} s  {name}" for seconds, name in timed[:count]]
