import time

import pytest
from agent_kubelet import AgentKubelet
from jobs import PATIENCE, Jobs, operator


@pytest.fixture
def jobs(request, installed, namespace, tmp_path):
    """With a parameter: nodes to which an image takes so many seconds to come."""
    pull = getattr(request, "param", 0)
    with AgentKubelet(installed, namespace, tmp_path, pull=pull) as kubelet, \
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
