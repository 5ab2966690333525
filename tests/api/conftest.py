import os
import pathlib
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools/lib"))

from crd.document import schema  # noqa: E402
from crd.pod_template import Pod  # noqa: E402
from validators import Core, Server  # noqa: E402


@pytest.fixture(scope="session")
def crd():
    """The CustomResourceDefinition as committed."""
    return yaml.safe_load((ROOT / "crds/lockstep.dev_trainingjobs.yaml").read_text())


@pytest.fixture(scope="session")
def whole(crd):
    """The schema of a TrainingJob with all rules, those of crds/rules.yaml among them."""
    return schema(Pod.of_crd(crd))


@pytest.fixture(scope="session")
def server(installed, tmp_path_factory):
    with installed.namespace("api") as name:
        yield Server(installed, name, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="session")
def core():
    folder = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin"))
    return Core(folder / "lockstep-validator")
