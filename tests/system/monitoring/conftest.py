import pytest
from watched_job import watched_job as watch


@pytest.fixture(scope="module")
def watched_job(installed, tmp_path_factory):
    """One that has lost a rank and a machine."""
    folder = tmp_path_factory.mktemp("watched")
    with installed.namespace("monitoring") as namespace, watch(installed, namespace, folder) as job:
        job.prometheus.wait("lockstep_checkpoint_age_seconds")
        job.kill_rank(3)
        job.lose_machine(1)
        yield job
