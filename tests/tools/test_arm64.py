"""What tools/ does so that Lockstep is built for arm64, and tested on it."""

import io
import json
import os
import subprocess
import tarfile

import fake_nodes
import images
import pytest
from paths import ROOT
from relative_links import make_relative

LINKS = {"usr/lib/liba.so": "/lib/liba.so.1", "lib/inside.so": "liba.so.1", "bin/up": "../lib/liba.so.1",
         "folder": "/usr/lib", "usr/lib/dangling": "/none"}


def test_absolute_links_of_a_sysroot_lead_into_it_and_others_stay(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/liba.so.1").write_text("arm64")
    for name, target in LINKS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(target)
    assert make_relative(tmp_path) == 3
    assert {name: os.readlink(tmp_path / name) for name in LINKS} == {
        **LINKS, "usr/lib/liba.so": "../../lib/liba.so.1", "folder": "usr/lib",
        "usr/lib/dangling": "../../none"}
    assert (tmp_path / "folder/liba.so").read_text() == "arm64"
    assert make_relative(tmp_path) == 0


@pytest.mark.parametrize("script", ["arm64-sysroot", "debian-kernel"])
def test_script_without_arguments_shows_its_usage(script):
    done = subprocess.run([ROOT / "tools/lib" / script], capture_output=True, text=True)
    assert done.returncode == 1 and f"usage: tools/lib/{script} FOLDER" in done.stderr


def test_preset_without_a_sysroot_names_the_command_that_makes_one(tmp_path):
    done = subprocess.run(["cmake", "--preset", "release-arm64", "-B", tmp_path / "build"], cwd=ROOT,
                          capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert done.returncode != 0
    assert "tools/deps --arm64" in done.stderr


def test_busybox_image_and_fake_nodes_have_the_architecture_of_this_machine(tmp_path):
    debian = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True,
                            check=True).stdout.strip()
    images.write_busybox(tmp_path / "busybox.tar")
    with tarfile.open(tmp_path / "busybox.tar") as archive:
        config = json.load(io.TextIOWrapper(archive.extractfile("config.json")))
    assert config["architecture"] == debian
    [node] = fake_nodes.manifests(1)
    assert node["metadata"]["labels"]["kubernetes.io/arch"] == debian
