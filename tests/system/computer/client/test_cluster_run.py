"""A run on a cluster, for answers that a real API server gives at a moment of its own choice."""

import time
import types

import lockstep
import pytest
from lockstep_client import cluster

JOB = lockstep.Job("gpt", machines=2, processes=2, image="example.com/test:1", command=["true"])


class Cluster:
    """The requests of a run. `state` is the job's, or the error of each look at it."""

    namespace = "default"

    def __init__(self, state, pods=None):
        self._state = state
        self._pods = pods or {}

    def read(self, name):
        if isinstance(self._state, Exception):
            raise self._state
        return {**JOB.manifest(), "metadata": {"name": name, "uid": "uid", "resourceVersion": "1"},
                "status": {"state": self._state}}

    def pods_of(self, name):
        return self._pods

    def log(self, pod):
        if not any(each.name == pod and each.began for each in self._pods.values()):
            raise lockstep.ClusterError(f"container in pod {pod} is waiting to start")
        yield f"a line of {pod}"


def run(api):
    return cluster.ClusterRun(JOB, api, "uid")


def test_a_block_whose_job_was_deleted_raises_the_end_of_its_wait():
    deleted = lockstep.NotFound("job gpt: not found")
    with pytest.raises(lockstep.JobStopped, match="was deleted before it ended"):
        with run(Cluster(deleted)) as gone:
            gone.wait()


def test_a_pod_that_has_not_begun_has_no_lines_yet():
    pods = {0: cluster._Pod("gpt-0", 1, began=True, ended=False),
            1: cluster._Pod("gpt-1", 1, began=False, ended=False)}
    assert list(run(Cluster("Starting", pods=pods)).logs()) == ["a line of gpt-0"]


@pytest.mark.parametrize("error", [lockstep.NotFound("job gpt: not found"),
                                   lockstep.ClusterError("no answer from the API server")])
def test_a_job_that_can_not_be_read_is_shown_as_unknown(error):
    shown = run(Cluster(error))
    assert repr(shown) == f"job gpt: Unknown, {error}"
    assert ">Unknown</b>" in shown._repr_html_() and str(error) in shown._repr_html_()


SECOND = 10**9
NOON = 1_709_208_000  # 2024-02-29T12:00:00Z


@pytest.mark.parametrize("line, at, text", [
    ("2024-02-29T12:00:00Z a b", NOON * SECOND, "a b"),
    ("2024-02-29T12:00:00.5Z ", NOON * SECOND + SECOND // 2, ""),
    ("2024-02-29T14:00:00.000000001+02:00 x", NOON * SECOND + 1, "x"),
    ("2024-02-29T06:30:00.000000000-05:30 x", NOON * SECOND, "x"),
    ("2024-03-01T00:00:00+12:00 x", NOON * SECOND, "x"),
    ("unable to retrieve the logs", 0, "unable to retrieve the logs"),
])
def test_a_lines_time_is_read_in_the_zone_of_its_node(line, at, text):
    assert cluster._stamped(line.encode()) == (at, text)


def test_a_log_goes_on_behind_the_last_line_whatever_the_nodes_zone():
    class Core:
        def __init__(self, client):
            pass

        def read_namespaced_pod_log(self, pod, namespace, **options):
            asked.update(options)
            lines = b"".join(b"2024-02-29T%d:00:00.%d+03:00 line %d\n" % (hour, part, part)
                             for hour, part in ((14, 9), (15, 10), (15, 12), (15, 2)))
            return types.SimpleNamespace(stream=lambda *_, **__: [lines], close=lambda: None)

    asked = {}
    client = types.SimpleNamespace(CoreV1Api=Core, CustomObjectsApi=Core, ApiException=OSError)
    api = cluster._Api(types.SimpleNamespace(client=client), None, "default")
    last = NOON * SECOND + SECOND // 10
    texts = [text for _, text in api.follow_log("gpt-0", last, lambda response: None)]
    assert texts == ["line 12", "line 2"]
    assert abs(asked["since_seconds"] - (time.time() - NOON + cluster._CLOCKS_SECONDS)) < 60
