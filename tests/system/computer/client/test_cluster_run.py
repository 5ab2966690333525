"""A run on a cluster, for answers that a real API server gives at a moment of its own choice."""

import lockstep
import pytest
from lockstep_client import cluster

JOB = lockstep.Job("gpt", machines=2, processes=2, image="example.com/test:1", command=["true"])


class Cluster:
    """The requests of a run. `state` is the job's, or the error of each look at it."""

    namespace = "default"

    def __init__(self, state):
        self._state = state

    def read(self, name):
        if isinstance(self._state, Exception):
            raise self._state
        return {**JOB.manifest(), "metadata": {"name": name, "uid": "uid", "resourceVersion": "1"},
                "status": {"state": self._state}}


def run(api):
    return cluster.ClusterRun(JOB, api, "uid")


def test_a_block_whose_job_was_deleted_raises_the_end_of_its_wait():
    deleted = lockstep.NotFound("job gpt: not found")
    with pytest.raises(lockstep.JobStopped, match="was deleted before it ended"):
        with run(Cluster(deleted)) as gone:
            gone.wait()
