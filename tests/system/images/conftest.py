import pathlib
import re
import subprocess

import pytest
from image_root import Image
from paths import ROOT
from tls import binary


@pytest.fixture(scope="session")
def built():
    """What tools/images prints: a line an image."""
    done = subprocess.run([ROOT / "tools/images"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {line.split()[0].split("/")[-1].split(":")[0]: line for line in done.stdout.splitlines()}


def from_index(command, folder):
    """The worker's image that a command of tools/package makes in `folder`."""
    if pathlib.Path(binary("lockstep-trainer")).parent != ROOT / "build/release/bin":
        pytest.skip("only what the preset release makes is shipped")
    subprocess.run([ROOT / "tools/deps", "--images"], check=True)
    made = subprocess.run([ROOT / "tools/package", command, "--no-build", "--out", folder], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.split()[0]
    buildah = ["buildah", "--root", folder / "storage", "--runroot", folder / "run", "--storage-driver", "vfs"]
    pulled = subprocess.run([*buildah, "pull", "--quiet", f"oci-archive:{made}"], check=True, capture_output=True,
                            text=True).stdout.strip()
    archive = folder / "docker.tar"
    subprocess.run([*buildah, "push", "--quiet", pulled, f"docker-archive:{archive}:worker:test"], check=True)
    return Image(archive, folder)


@pytest.fixture(scope="session")
def worker_of_a_release(tmp_path_factory):
    return from_index("worker-image", tmp_path_factory.mktemp("worker-of-a-release"))


@pytest.fixture(scope="session", params=["images", "package"])
def cuda_worker(request, tmp_path_factory):
    """lockstep/worker-cuda, as this command of tools makes it."""
    folder = tmp_path_factory.mktemp("worker-cuda")
    if request.param == "package":
        return from_index("worker-cuda-image", folder)
    done = subprocess.run([ROOT / "tools/images", "--cuda"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[-1]
    assert float(re.search(r"([0-9.]+) MB of it Lockstep's", line)[1]) <= 750, line
    return Image(line.split()[1], folder)


@pytest.fixture(scope="session")
def archives(built):
    return {name: pathlib.Path(line.split()[1]) for name, line in built.items()}


@pytest.fixture(scope="session")
def operator(archives, tmp_path_factory):
    return Image(archives["operator"], tmp_path_factory.mktemp("operator"))


@pytest.fixture(scope="session")
def worker(archives, tmp_path_factory):
    return Image(archives["worker"], tmp_path_factory.mktemp("worker"))
