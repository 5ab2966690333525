"""A library on nanobind, which at a process's end complains of whatever it takes for a leak."""

import os
import pathlib

import pytest
from parking import Environment

pytestmark = pytest.mark.slow

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
PYTHON = CACHE / "lockstep/frameworks/nanobind/bin/python"
TRAIN = """
import lief, colorsys, wave
print(lief.PE.Binary.__module__)
"""


@pytest.fixture
def nanobind(tmp_path):
    if not PYTHON.exists():
        pytest.skip("no library on nanobind here: tools/deps --frameworks")
    environment = Environment(PYTHON, tmp_path)
    environment.python = str(PYTHON)
    return environment


def test_parked_program_with_nanobind_library_exits_without_leak_report(nanobind):
    train = nanobind.program("train.py", TRAIN)
    plain = nanobind.record(train)
    assert plain == (0, "lief._lief.PE\n", "") and "lief" in nanobind.learnt()
    with nanobind.park(train) as process:
        assert process.ready()["failed"] == []
        process.go()
        assert process.result() == plain
