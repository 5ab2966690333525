
import pytest
from e2e_install import provide
from e2e_site import Site
from e2e_stack import stack
from kueue import kueue

# What is cheap first, what breaks nodes and control plane last.
ORDER = ["lifecycle", "processes", "programs", "page", "release", "monitoring", "places", "alignment",
         "nodes", "elastic", "control_plane", "chaos"]


def pytest_collection_modifyitems(items):
    def place(item):
        name = item.path.stem.removeprefix("test_")
        return ORDER.index(name) if name in ORDER else len(ORDER)

    items.sort(key=place)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call" and call.excinfo and "site" in item.funcargs:
        outcome.get_result().sections.append(("the cluster", item.funcargs["site"].report()))


@pytest.fixture
def queues(stack, tmp_path):
    """A Kueue, and operators that know of it, for this test alone. To be asked for before `site`,
    whose jobs and namespace it lets go."""
    with kueue(stack, tmp_path / "kueue") as made:
        made.make("ResourceFlavor", "a3", spec={})  # its webhooks answer from here on
        with stack.installed_with("kueue.enabled=true"):
            yield made
        made.leave()


@pytest.fixture
def site(stack, tmp_path):
    stack.wait_whole()
    with stack.namespace("e2e") as name, Site(stack, name, tmp_path / "volumes") as made:
        yield made


@pytest.fixture(scope="session")
def undisturbed(stack, tmp_path_factory):
    """The final weights of a training that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with stack.namespace("undisturbed") as name, Site(stack, name, folder) as made:
        job = made.train()
        job.wait_state("Succeeded")
        return job.weights()


@pytest.fixture(scope="session")
def python(stack):
    """The name of an image with Python, and nothing of Lockstep."""
    return provide(stack, "python")


@pytest.fixture(scope="session")
def torch(stack):
    """The name of one with PyTorch."""
    return provide(stack, "torch")
