import time

import pytest
from agent_kubelet import AgentKubelet
from jobs import PATIENCE, Jobs, operator


@pytest.fixture
def jobs(installed, namespace, tmp_path):
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
