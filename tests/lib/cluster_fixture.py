"""The fixtures `cluster`, `installed` and `namespace`: a Kubernetes for tests.

All tests of a run share one, each in a namespace of its own. A test that changes the whole cluster
changes it back. LOCKSTEP_CLUSTER names the folder of a cluster that is already up.

    def test_something(cluster, namespace):
        cluster.kubectl("apply", "-f", "-", input=manifest)
        pods = CoreV1Api(cluster.client()).list_namespaced_pod(namespace)
"""

import os

import pytest
from cluster import Cluster, cluster_in


def cluster_fixture(scope, *options):
    """A fixture `cluster`: one of its own with these options of tools/lib/cluster/up."""
    @pytest.fixture(scope=scope)
    def cluster(tmp_path_factory):
        with cluster_in(tmp_path_factory.mktemp("cluster"), *options) as made:
            yield made

    return cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    given = os.environ.get("LOCKSTEP_CLUSTER")
    if given:
        yield Cluster(given)
        return
    with cluster_in(tmp_path_factory.mktemp("cluster"), "--fake-nodes", "20") as made:
        yield made


@pytest.fixture(scope="session")
def installed(cluster):
    """The cluster, with crds/ in it."""
    cluster.install_crd()
    return cluster


@pytest.fixture
def namespace(cluster):
    with cluster.namespace() as name:
        yield name
