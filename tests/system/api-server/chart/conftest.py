import sys

import parts
import pytest
from cluster_fixture import cluster_fixture


def say(text):
    print(text, file=sys.stderr, flush=True)


@pytest.fixture(scope="session")
def programs():
    """The folder of kubeconform and helm-unittest."""
    return parts.build("helm", say)


# One of these tests' own, because a cluster can hold the chart's cluster-wide objects only once.
cluster = cluster_fixture("package", "--audit")
