import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))

from agent_kubelet import AgentKubelet  # noqa: E402
from cluster import cluster, namespace  # noqa: E402,F401
from jobs import PATIENCE, Jobs, operator  # noqa: E402


@pytest.fixture(scope="session")
def installed(cluster):  # noqa: F811
    cluster.install_crd()
    return cluster


@pytest.fixture
def jobs(installed, namespace, tmp_path):  # noqa: F811
    with AgentKubelet(installed, namespace, tmp_path) as kubelet, \
            operator(installed.kubeconfig, tmp_path, "--namespace", namespace,
                     "--system-namespace", namespace) as process:
        made = Jobs(installed, namespace, kubelet, tmp_path)
        made.operator = process
        yield made
        for name in made.kubectl("get", "tj", "-o", "name").split():
            made.kubectl("delete", name, "--wait=false")
        deadline = time.monotonic() + PATIENCE
        while made.kubectl("get", "pods", "-o", "name") and time.monotonic() < deadline:
            time.sleep(0.1)
