import os
import pathlib
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))

from cluster import cluster, namespace  # noqa: E402,F401
from judges import Core, Server  # noqa: E402


@pytest.fixture(scope="session")
def crd():
    """The CustomResourceDefinition as committed."""
    return yaml.safe_load((ROOT / "crds/lockstep.dev_trainingjobs.yaml").read_text())


@pytest.fixture(scope="session")
def installed(cluster):  # noqa: F811
    """The cluster, with crds/ in it."""
    cluster.install_crd()
    return cluster


@pytest.fixture(scope="session")
def server(installed, tmp_path_factory):
    with installed.namespace("api") as name:
        yield Server(installed, name, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="session")
def core():
    folder = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin"))
    return Core(folder / "lockstep-judge")
