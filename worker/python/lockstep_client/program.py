"""The programs of Lockstep that the client starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import List

from lockstep_client.errors import JobInvalid, MissingProgram

VALIDATE_SECONDS = 60.0  # far more than `lockstep validate` takes
_PLACE = re.compile(r"^-:(?:\d+:\d+:)? ")  # in standard input, which nobody has written by hand


def find() -> str:
    """The path of `lockstep`: in PATH, or beside this Python. Raises MissingProgram."""
    beside = os.path.dirname(sys.executable)
    found = shutil.which("lockstep") or shutil.which("lockstep", path=beside)
    if found is None:
        raise MissingProgram(f"the program `lockstep` is neither in PATH nor in {beside}; install "
                             "Lockstep, or add the folder of its programs to PATH")
    return found


def validate(manifest: str, target: str) -> List[str]:
    """Has `lockstep validate` judge a job in JSON, and returns the warnings.

    Raises JobInvalid with the errors, and MissingProgram.
    """
    try:
        done = subprocess.run([find(), "validate", "--target", target, "-"], input=manifest,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                              errors="replace", timeout=VALIDATE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise JobInvalid([f"`lockstep validate` gave no answer within {VALIDATE_SECONDS:g} s"]
                         ) from None
    lines = [_PLACE.sub("", line) for line in done.stdout.splitlines()]
    found = [line for line in lines if line.startswith(("error: ", "warning: "))]
    errors = [line.partition(": ")[2] for line in found if line.startswith("error: ")]
    if done.returncode != 0:
        raise JobInvalid(errors or lines or [f"`lockstep validate` exited with {done.returncode}"])
    return [line.partition(": ")[2] for line in found]
