"""tools/lib/release/image_signature.py: images signed as cosign does, checked from files and from a registry."""

import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest
from paths import ROOT
from registry import registry

sys.path[:0] = [str(ROOT / f"tools/lib{folder}") for folder in ("/release", "/package", "/testing", "")]

import image_signature
import steps
import sums
from checks import Stop

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
COSIGN = shutil.which("cosign") or str(CACHE / "lockstep/cosign/bin/cosign")  # of tools/deps --cosign
OFFLINE = ["--insecure-ignore-tlog=true", "--new-bundle-format=false"]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
needs_cosign = pytest.mark.skipif(not os.access(COSIGN, os.X_OK), reason="cosign is missing: tools/deps --cosign")


def blob(files, value, kind):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    digest = hashlib.sha256(data).hexdigest()
    files[f"blobs/sha256/{digest}"] = data
    return {"mediaType": kind, "size": len(data), "digest": f"sha256:{digest}"}


def write_image(path, content):
    """An archive as tools/package image makes it, of two images with one small layer each."""
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}
    entries = []
    for architecture in ("amd64", "arm64"):
        layer = blob(files, f"{content} for {architecture}".encode(), "application/vnd.oci.image.layer.v1.tar")
        config = blob(files, {"architecture": architecture, "os": "linux", "config": {},
                              "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}},
                      "application/vnd.oci.image.config.v1+json")
        manifest = blob(files, {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]},
                        MANIFEST)
        entries.append({**manifest, "platform": {"architecture": architecture, "os": "linux"}})
    index = blob(files, {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}, INDEX)
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [
        {**index, "annotations": {image_signature.NAME: "lockstep/operator:0.2.0"}}]}).encode()
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def new_key(path):
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path], check=True)
    path.with_suffix(".pub").write_text(image_signature.public_key(path))
    return path


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return new_key(tmp_path_factory.mktemp("key") / "cosign.key")


@pytest.fixture
def signed(tmp_path, key):
    """The archive of an image that is signed."""
    archive = write_image(tmp_path / "lockstep-operator-0.2.0.oci.tar", "programs")
    image_signature.sign(archive, key, 1_700_000_000)
    return archive


@pytest.fixture
def layout(signed, tmp_path):
    """The folder that a user gets who unpacks both archives."""
    folder = tmp_path / "image"
    folder.mkdir()
    for archive in (signed, image_signature.path(signed)):
        subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    return folder


def test_signature_of_the_image_is_right(signed, key):
    image_signature.verify(signed, key.with_suffix(".pub"))


def test_payload_names_the_repository_of_the_image(tmp_path, key):
    for name in ("operator", "worker"):
        archive = write_image(tmp_path / f"lockstep-{name}-0.2.0.oci.tar", "programs")
        payload, _ = image_signature._signed(image_signature.sign(archive, key, 1_700_000_000))
        assert json.loads(payload)["critical"]["identity"] == {"docker-reference": f"lockstep/{name}"}


def test_signature_by_another_key_is_refused(signed, tmp_path):
    other = new_key(tmp_path / "other.key")
    with pytest.raises(Stop, match="openssl dgst failed: .*[Vv]erification"):
        image_signature.verify(signed, other.with_suffix(".pub"))


def test_signature_of_another_image_is_refused(signed, key):
    write_image(signed, "other programs")
    with pytest.raises(Stop, match="signs the image sha256:.*, but lockstep-operator-0.2.0.oci.tar is sha256:"):
        image_signature.verify(signed, key.with_suffix(".pub"))


def test_image_without_a_signature_is_refused(signed, key):
    image_signature.path(signed).unlink()
    with pytest.raises(Stop, match="the image is not signed"):
        image_signature.verify(signed, key.with_suffix(".pub"))


@pytest.mark.parametrize(("old", "new"), [(b"cosign container image signature", b"cosign container image Signature"),
                                          (b"dev.cosignproject.cosign/sigs", b"x" * 29)])
def test_changed_bytes_of_a_signature_are_refused(signed, key, old, new):
    path = image_signature.path(signed)
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))
    with pytest.raises(Stop, match="holds no signature as cosign writes it"):
        image_signature.verify(signed, key.with_suffix(".pub"))


def test_commands_of_the_documentation_verify_by_openssl_alone(layout, key):
    """docs/operate/security.md shows them."""
    page = (ROOT / "docs/operate/security.md").read_text()
    commands = page.split("<!-- openssl -->\n```sh\n")[1].split("```")[0]
    shutil.copy(key.with_suffix(".pub"), layout.parent / "cosign.pub")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=layout.parent, capture_output=True,
                          text=True)
    assert done.returncode == 0 and "Verified OK" in done.stdout, done.stderr
    assert json.loads((layout / "index.json").read_text())["manifests"][0]["digest"] in done.stdout


@needs_cosign
def test_cosign_verifies_the_files_without_a_network(layout, key, tmp_path):
    verify = ["unshare", "--net", "--map-root-user", COSIGN, "verify", "--local-image", *OFFLINE, "--key"]
    done = subprocess.run([*verify, key.with_suffix(".pub"), layout], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "The signatures were verified against the specified public key" in done.stderr
    other = new_key(tmp_path / "other.key")
    done = subprocess.run([*verify, other.with_suffix(".pub"), layout], capture_output=True, text=True)
    assert done.returncode != 0


@needs_cosign
def test_cosign_verifies_the_image_in_a_registry(layout, key):
    with registry() as server:
        for path in (layout / "blobs/sha256").iterdir():
            server.blobs[f"sha256:{path.name}"] = path.read_bytes()
        image, signature = json.loads((layout / "index.json").read_text())["manifests"]
        named = [(image, "0.2.0"), (image, image["digest"]), (signature, signature["annotations"][image_signature.NAME])]
        for entry, name in named:
            server.manifests["lockstep/operator", name] = (entry["mediaType"], server.blobs[entry["digest"]])
        done = subprocess.run([COSIGN, "verify", *OFFLINE, "--allow-http-registry", "--key", key.with_suffix(".pub"),
                               f"{server.host}/lockstep/operator@{image['digest']}"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_release_signs_its_image_and_verify_checks_it(tmp_path, key):
    dist = tmp_path / "dist"
    dist.mkdir()
    archive = write_image(dist / "lockstep-operator-0.2.0.oci.tar", "programs")
    ssh = tmp_path / "release"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ssh], check=True)

    def sign(image_key):
        image_signature.sign_all(dist, image_key, 1_700_000_000)
        sums.write(dist)
        sums.sign(dist, ssh)
        shutil.copy(dist / sums.SIGNERS, tmp_path / "signers")

    sign(key)
    assert f"  {image_signature.PUBLIC}" in (dist / sums.SUMS).read_text()
    steps.verify(dist, tmp_path / "signers")
    write_image(archive, "other programs")
    sums.write(dist)
    sums.sign(dist, ssh)
    with pytest.raises(Stop, match="signs the image"):
        steps.verify(dist, tmp_path / "signers")
    sign(None)
    assert sorted(each.name for each in dist.glob("*.oci.tar")) == [archive.name]
    assert not (dist / image_signature.PUBLIC).exists()
    steps.verify(dist, tmp_path / "signers")
