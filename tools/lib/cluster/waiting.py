"""Waiting for conditions: nothing in the tests sleeps for a time and hopes."""

import time

PATIENCE = 30.0  # seconds; far beyond what anything takes, so that a slow machine fails no test
# What a condition costs, as a look through /proc or a call of kubectl, delays what it waits for. So a
# pause is at least this many times as long as the look before it.
REST = 2


def wait_until(condition, what, patience=PATIENCE, interval=0.005):
    """The first true value of condition(); AssertionError naming `what` when the time is up."""
    deadline = time.monotonic() + patience
    while True:
        began = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"waited {patience:g} s for {what() if callable(what) else what}")
        time.sleep(min(max(interval, REST * (now - began)), max(deadline - now, 0)))


def holds_for(seconds, condition, what):
    """Asserts that condition() stays true for so long; the last look is at the end."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        assert condition(), what
        now = time.monotonic()
        if began >= deadline:
            return
        time.sleep(min(max(0.02, REST * (now - began)), max(deadline - now, 0)))
