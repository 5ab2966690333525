import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "cluster"), str(TESTS / "monitoring")]

from cluster import cluster  # noqa: E402,F401
from watched_job import watched_job as watch  # noqa: E402


@pytest.fixture(scope="module")
def watched_job(cluster, tmp_path_factory):  # noqa: F811
    """One that has lost a rank and a machine."""
    folder = tmp_path_factory.mktemp("watched")
    with cluster.namespace("monitoring") as namespace, watch(cluster, namespace, folder) as job:
        job.prometheus.wait("lockstep_checkpoint_age_seconds")
        job.kill_rank(3)
        job.lose_machine(1)
        yield job
