import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).parents[1]
sys.path.append(str(TESTS / "cluster"))

import parts  # noqa: E402
from cluster import cluster_in  # noqa: E402


def say(text):
    print(text, file=sys.stderr, flush=True)


@pytest.fixture(scope="session")
def programs():
    """The folder of kubeconform and helm-unittest."""
    return parts.build("helm", say)


@pytest.fixture(scope="package")
def cluster(tmp_path_factory):
    """A control plane of these tests alone, for the chart owns what is there once in a cluster."""
    with cluster_in(tmp_path_factory.mktemp("cluster"), "--audit") as made:
        yield made
