"""Frameworks that are too large for every computer that runs the tests: `tools/deps --frameworks`."""

import os
import pathlib

import pytest

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "lockstep"


@pytest.fixture(scope="session")
def python_with():
    """The Python that has a framework."""
    def find(framework):
        python = CACHE / "frameworks" / framework / "bin/python"
        if not python.exists():
            pytest.skip(f"no {framework} here: tools/deps --frameworks")
        return str(python)
    return find
