"""Waiting on a watch of the official client: told by events, not by asking again and again."""

import time

import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.watch import Watch

STREAM = 20  # seconds one watch lasts; then another begins with everything anew


def first(holds, what, patience, listing, *arguments, **options):
    """The first true value of holds(kind, object); a watch that breaks is begun again.

    `listing` is a list call of the client. AssertionError naming `what` when the time is up.
    """
    deadline = time.monotonic() + patience
    last = None
    while (left := deadline - time.monotonic()) > 0:
        try:
            for event in Watch().stream(listing, *arguments, **options, deserialize=False,
                                        timeout_seconds=max(1, min(STREAM, round(left))),
                                        _request_timeout=(5, STREAM + 10)):
                last = event["object"]
                if event["type"] == "ERROR":
                    break
                value = holds(event["type"], last)
                if value:
                    return value
                if time.monotonic() > deadline:
                    break
        except (ApiException, urllib3.exceptions.HTTPError, OSError):
            time.sleep(0.2)  # an API server that restarts
    raise AssertionError(f"waited {patience:g} s for {what}; last seen: {_short(last)}")


def _short(seen):
    return (seen or {}).get("status", seen)
