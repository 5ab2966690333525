"""Fixtures of more than one folder: what costs seconds to start is started once, when first needed."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/lib", "tools/lib/cluster", "tools/lib")]

from cluster_fixture import cluster, installed, namespace  # noqa: E402, F401
from report_properties import pytest_runtest_makereport, pytest_runtest_setup  # noqa: E402, F401
from gang_fixture import gang  # noqa: E402, F401
from run import end_runs  # noqa: E402


@pytest.fixture(autouse=True)
def no_run_outlives_its_test():
    yield
    end_runs()
