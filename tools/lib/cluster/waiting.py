"""Waiting for conditions: nothing in the tests sleeps for a time and hopes."""

import time

PATIENCE = 30.0  # seconds; far beyond what anything takes, so that a slow machine fails no test


def wait_until(condition, what, patience=PATIENCE, interval=0.005):
    """The first true value of condition(); AssertionError naming `what` when the time is up."""
    deadline = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:g} s for {what() if callable(what) else what}")
        time.sleep(interval)


def holds_for(seconds, condition, what):
    """Asserts that condition() stays true for so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), what
        time.sleep(0.02)
