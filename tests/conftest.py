"""Fixtures of more than one folder: what costs seconds to start is started once, when first needed."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))

from cluster import cluster, installed, namespace  # noqa: E402, F401
from crash_record import pytest_runtest_makereport  # noqa: E402, F401
from gang_fixture import gang  # noqa: E402, F401
from run import end_runs  # noqa: E402


@pytest.fixture(autouse=True)
def no_run_outlives_its_test():
    yield
    end_runs()
