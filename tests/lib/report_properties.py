"""Properties of tests in pytest's reports, for tools/test.

`cpu` is the CPU time in seconds of the test's process and of the processes that it waited for. Servers
that outlive the test are not in it. A test that takes much longer than that waits for something.

`node` is the node id of a failed test. tools/test runs it once more, alone. A crash must not be excused
that way, so a failed test also gets `crash` if

- a program of ours that the test started died of a signal that only a fault raises, or
- a sanitizer's report, an assertion or the like stands in the failure or in what was printed.

A child of such a program, as an agent of `lockstep run`, is known by the second rule alone.
"""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from tls import binary

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools/lib/testing"))

from outcome import crash_in  # noqa: E402

FAULTS = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE,
          signal.SIGTRAP, signal.SIGSYS}
OURS = pathlib.Path(binary("x")).resolve().parent

_BEGAN = pytest.StashKey()
_started = []  # (program, process) of ours, that runs or has died of a fault


class _Recorded(subprocess.Popen):
    def __init__(self, args, *others, **options):
        super().__init__(args, *others, **options)
        words = [args] if isinstance(args, (str, bytes, os.PathLike)) else args
        # Also behind another program, as in `unshare --mount lockstep run`.
        for word in map(os.fsdecode, filter(None, [options.get("executable"), *words])):
            if "/" in word and OURS in pathlib.Path(word).resolve().parents:
                _started.append((pathlib.Path(word).name, self))
                break


subprocess.Popen = _Recorded


def _crashed():
    """What died of a fault; "" if nothing did."""
    for program, process in _started:
        if process.poll() is not None and -process.returncode in FAULTS:
            return f"{program} died of {signal.Signals(-process.returncode).name}"
    return ""


def _printed(report):
    """The messages of the failure and what was captured, without the test's own source."""
    messages = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return "\n".join([*messages, *(text for _, text in report.sections)])


def _cpu():
    return sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[_BEGAN] = _cpu()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        found = [("node", item.nodeid), ("crash", _crashed() or crash_in(_printed(report)))]
        for each in found:
            # The report of a later phase takes the item's.
            item.user_properties.append(each)
            report.user_properties.append(each)
    if report.when == "teardown":
        report.user_properties.append(("cpu", f"{_cpu() - item.stash[_BEGAN]:.1f}"))
        # A program that several tests share may have died in an earlier one, which passed.
        _started[:] = [each for each in _started
                       if each[1].poll() is None or -each[1].returncode in FAULTS]
    return report
