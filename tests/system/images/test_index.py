"""tools/package image: one index of images for several architectures, in a registry and in a file."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile

import pytest
from paths import ROOT, VERSION
from registry import registry

sys.path.insert(0, str(ROOT / "tools/lib/package"))

import image
from errors import PackageError

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("buildah"), reason="needs buildah and root")]

MACHINES = {"amd64": 62, "arm64": 183}


def write_program(path, machine, interpreter=False):
    """An ELF file that names its machine. It is never run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, int(interpreter), 64, 0, 0)
    path.write_bytes(header + struct.pack("<I", 3) + bytes(52))


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


def test_program_with_shared_libraries_is_refused(stages, tmp_path):
    write_program(stages["arm64"] / "lockstep-operator", 183, interpreter=True)
    with pytest.raises(PackageError, match="arm64/lockstep-operator is not static"):
        image.make(stages, tmp_path / "index.tar", 0)
    assert not (tmp_path / "index.tar").exists()
