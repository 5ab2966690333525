"""What tools/ does so that Lockstep is built for arm64, and tested on it."""

import io
import json
import subprocess
import tarfile

import fake_nodes
import images


def test_busybox_image_and_fake_nodes_have_the_architecture_of_this_machine(tmp_path):
    debian = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True,
                            check=True).stdout.strip()
    images.write_busybox(tmp_path / "busybox.tar")
    with tarfile.open(tmp_path / "busybox.tar") as archive:
        config = json.load(io.TextIOWrapper(archive.extractfile("config.json")))
    assert config["architecture"] == debian
    [node] = fake_nodes.manifests(1)
    assert node["metadata"]["labels"]["kubernetes.io/arch"] == debian
