import pytest
from agent_kubelet import AgentKubelet
from client_fixture import programs_in_path  # noqa: F401
from jobs import operator


@pytest.fixture
def kubelet(installed, namespace, tmp_path):
    """Real agents, under a real operator."""
    with AgentKubelet(installed, namespace, tmp_path) as kubelet, \
            operator(installed.kubeconfig, tmp_path, "--namespace", namespace,
                     "--system-namespace", namespace):
        yield kubelet


@pytest.fixture
def there(installed, namespace):
    """How the client's calls reach the namespace."""
    return {"kubeconfig": str(installed.kubeconfig), "namespace": namespace}
