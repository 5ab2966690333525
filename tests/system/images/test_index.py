"""tools/package image: one index of images for several architectures, in a registry and in a file."""

import json
import os
import struct
import subprocess
import sys
import tarfile

import pytest
from paths import ROOT, VERSION
from registry import registry

sys.path.append(str(ROOT / "tools/lib/package"))

import image

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(os.geteuid() != 0, reason="mounts containers, so it needs root")]

MACHINES = {"amd64": 62, "arm64": 183}


@pytest.fixture(scope="module", autouse=True)
def buildah():
    subprocess.run([ROOT / "tools/deps", "--images"], check=True)


def write_program(path, machine):
    """The beginning of an ELF file that names its machine. It is never run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, machine))


@pytest.fixture
def stages(tmp_path):
    for architecture, machine in MACHINES.items():
        for name in image.PROGRAMS:
            write_program(tmp_path / architecture / name, machine)
    return {architecture: tmp_path / architecture for architecture in MACHINES}


def test_index_has_an_image_for_each_architecture_and_the_same_bytes_each_time(stages, tmp_path):
    first, second = tmp_path / "first.tar", tmp_path / "second.tar"
    image.make(stages, first, 1_700_000_000)
    image.make(stages, second, 1_700_000_000)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as tar:
        def blob(digest):
            return json.load(tar.extractfile(f"blobs/{digest.replace(':', '/')}"))
        index = blob(image.digest(first))
        platforms = {}
        for entry in index["manifests"]:
            config = blob(blob(entry["digest"])["config"]["digest"])
            platforms[entry["platform"]["architecture"]] = config["architecture"]
            assert config["config"]["User"] == "65532:65532"
            assert config["config"]["Entrypoint"] == ["/lockstep-operator"]
            assert config["config"]["Labels"]["org.opencontainers.image.version"] == VERSION
            assert config["created"] == "2023-11-14T22:13:20Z"
    assert platforms == {"amd64": "amd64", "arm64": "arm64"}


def test_registry_gives_each_architecture_its_programs_by_the_digest_of_the_file(stages, tmp_path):
    path = tmp_path / "index.tar"
    with registry() as served:
        image.make(stages, path, 1_700_000_000, registry=served.host)
        reference = f"docker://{served.host}/lockstep/operator@{image.digest(path)}"
        for architecture, machine in MACHINES.items():
            buildah = ["buildah", "--root", tmp_path / f"{architecture}-storage", "--runroot", tmp_path / "run",
                       "--storage-driver", "vfs"]
            def run(*arguments):
                return subprocess.run([*buildah, *arguments], check=True, capture_output=True,
                                      text=True).stdout.strip()
            run("pull", "--quiet", "--tls-verify=false", "--platform", f"linux/{architecture}", reference)
            container = run("from", "--pull-never", "--platform", f"linux/{architecture}",
                            run("images", "--quiet"))
            program = (tmp_path / run("mount", container) / "lockstep-operator").read_bytes()
            assert struct.unpack_from("<H", program, 18)[0] == machine
            run("rm", "--all")
