"""The Python client in the tests' process, as a user's program has it."""

import os
import sys

import pytest
from paths import MODULES
from tls import binary

sys.path.insert(0, str(MODULES))


@pytest.fixture(autouse=True)
def programs_in_path(monkeypatch):
    folder = os.path.dirname(binary("lockstep"))
    monkeypatch.setenv("PATH", folder + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
