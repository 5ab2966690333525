import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))

from cluster import cluster, namespace  # noqa: E402,F401
from image_root import Image  # noqa: E402


@pytest.fixture(scope="session")
def built():
    """What tools/images prints: a line an image."""
    done = subprocess.run([ROOT / "tools/images"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {line.split()[0].split("/")[-1].split(":")[0]: line for line in done.stdout.splitlines()}


@pytest.fixture(scope="session")
def archives(built):
    return {name: pathlib.Path(line.split()[1]) for name, line in built.items()}


@pytest.fixture(scope="session")
def operator(archives, tmp_path_factory):
    return Image(archives["operator"], tmp_path_factory.mktemp("operator"))


@pytest.fixture(scope="session")
def worker(archives, tmp_path_factory):
    return Image(archives["worker"], tmp_path_factory.mktemp("worker"))
