import os
import pathlib

import pytest
import yaml
from crd.document import schema
from crd.pod_template import Pod
from paths import ROOT
from validators import Core, Server


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
