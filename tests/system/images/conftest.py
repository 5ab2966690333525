import pathlib
import subprocess

import pytest
from image_root import Image
from paths import ROOT


@pytest.fixture(scope="session")
def built():
    """What tools/images prints: a line an image."""
    done = subprocess.run([ROOT / "tools/images"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {line.split()[0].split("/")[-1].split(":")[0]: line for line in done.stdout.splitlines()}


@pytest.fixture(scope="session")
def cuda_worker(tmp_path_factory):
    """(lockstep/worker-cuda, what tools/images --cuda printed of it)"""
    done = subprocess.run([ROOT / "tools/images", "--cuda"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[-1]
    return Image(line.split()[1], tmp_path_factory.mktemp("worker-cuda")), line


@pytest.fixture(scope="session")
def archives(built):
    return {name: pathlib.Path(line.split()[1]) for name, line in built.items()}


@pytest.fixture(scope="session")
def operator(archives, tmp_path_factory):
    return Image(archives["operator"], tmp_path_factory.mktemp("operator"))


@pytest.fixture(scope="session")
def worker(archives, tmp_path_factory):
    return Image(archives["worker"], tmp_path_factory.mktemp("worker"))
