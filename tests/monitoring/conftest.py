import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "cluster"), str(TESTS / "monitoring")]

from watched_job import watched_job as watch  # noqa: E402


@pytest.fixture(scope="module")
def watched_job(installed, tmp_path_factory):
    """One that has lost a rank and a machine."""
    folder = tmp_path_factory.mktemp("watched")
    with installed.namespace("monitoring") as namespace, watch(installed, namespace, folder) as job:
        job.prometheus.wait("lockstep_checkpoint_age_seconds")
        job.kill_rank(3)
        job.lose_machine(1)
        yield job
