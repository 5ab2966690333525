"""Signatures of images as cosign writes and checks them, by a key and without a network.

The signature of IMAGE.oci.tar is IMAGE.sig.oci.tar. Unpacked into one folder they are an OCI layout with
both, from which cosign checks the image and skopeo copies both to a registry. The format is cosign's
"simple signing" (github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md): the payload names the
image's digest, and a manifest of tag sha256-DIGEST.sig holds payload and signature. openssl signs.
"""

import base64
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile

from checks import Stop

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE = "dev.cosignproject.cosign/signature"
NAME = "org.opencontainers.image.ref.name"
# By these cosign finds image and signatures in a layout.
KIND, OF_IMAGE, OF_SIGNATURES = "kind", "dev.cosignproject.cosign/imageIndex", "dev.cosignproject.cosign/sigs"
PUBLIC = "cosign.pub"  # in a release; SHA256SUMS lists it, so who trusts the release's key trusts this one
PATIENCE = 60  # seconds for openssl


def path(archive):
    """Of the signature of `archive`."""
    return archive.with_name(archive.name.removesuffix(".oci.tar") + ".sig.oci.tar")


def is_signature(name):
    """Whether the file of a release is a signature of an image."""
    return name.endswith(".sig.oci.tar")


def images(folder):
    """The archives of images in a release."""
    return sorted(each for each in folder.glob("*.oci.tar") if not is_signature(each.name))


def sign_all(folder, key, seconds):
    """Signs the images of a release, or removes what an earlier call left if `key` is None."""
    for left in (folder / PUBLIC, *folder.glob("*.sig.oci.tar")):
        left.unlink(missing_ok=True)
    if key:
        (folder / PUBLIC).write_text(public_key(key))
        for archive in images(folder):
            sign(archive, key, seconds)
            verify(archive, folder / PUBLIC)


def verify_all(folder):
    """Checks each image of a release whose images are signed. The sums of `folder` must be checked before."""
    if (folder / PUBLIC).is_file():
        for archive in images(folder):
            verify(archive, folder / PUBLIC)


def sign(archive, key, seconds):
    """Signs by the PEM file `key`, an EC key of P-256. All entries get the time `seconds`."""
    entry = _index_entry(archive)
    payload = _payload(repository(archive), entry["digest"])
    signature = base64.b64encode(_openssl("dgst", "-sha256", "-sign", key, given=payload)).decode()
    config = _json({"architecture": "", "config": {}, "created": "0001-01-01T00:00:00Z",
                    "history": [{"created": "0001-01-01T00:00:00Z"}], "os": "",
                    "rootfs": {"type": "layers", "diff_ids": [_digest(payload)]}})
    manifest = _json({"schemaVersion": 2, "mediaType": MANIFEST, "config": _described(config, CONFIG),
                      "layers": [{**_described(payload, PAYLOAD), "annotations": {SIGNATURE: signature}}]})
    tag = entry["digest"].replace(":", "-") + ".sig"
    index = _json({"schemaVersion": 2, "manifests": [
        {**entry, "annotations": {**entry.get("annotations", {}), KIND: OF_IMAGE}},
        {**_described(manifest, MANIFEST), "annotations": {NAME: tag, KIND: OF_SIGNATURES}}]})
    files = {"index.json": index, "oci-layout": _json({"imageLayoutVersion": "1.0.0"})}
    for blob in (payload, config, manifest):
        files["blobs/" + _digest(blob).replace(":", "/")] = blob
    with tarfile.open(path(archive), "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in sorted(files.items()):
            made = tarfile.TarInfo(name)
            made.size, made.mtime, made.mode = len(data), seconds, 0o644
            tar.addfile(made, io.BytesIO(data))
    return path(archive)


def verify(archive, public):
    """Raises Stop unless the owner of `public`, a PEM file, signed the image in `archive`."""
    if not path(archive).is_file():
        raise Stop(f"{path(archive)} is missing: the image is not signed")
    wanted = _index_entry(archive)["digest"]
    try:
        payload, signature = _signed(path(archive))
        named = json.loads(payload)["critical"]["image"]["docker-manifest-digest"]
    except (KeyError, ValueError, TypeError, tarfile.TarError) as error:
        raise Stop(f"{path(archive)} holds no signature as cosign writes it: {error!r}") from error
    with tempfile.NamedTemporaryFile() as file:
        file.write(signature)
        file.flush()
        _openssl("dgst", "-sha256", "-verify", public, "-signature", file.name, given=payload)
    if named != wanted:
        raise Stop(f"{path(archive)} signs the image {named}, but {archive.name} is {wanted}")


def public_key(key):
    """The public half of the PEM file `key`, as PEM."""
    return _openssl("pkey", "-in", key, "-pubout").decode()


def repository(archive):
    """What an archive's image is called: lockstep/NAME of lockstep-NAME-VERSION.oci.tar."""
    return "lockstep/" + archive.name.removeprefix("lockstep-").rpartition("-")[0]


def _payload(name, digest):
    """In the order and without the spaces of cosign's own."""
    return _json({"critical": {"identity": {"docker-reference": name},
                               "image": {"docker-manifest-digest": digest},
                               "type": "cosign container image signature"}, "optional": None})


def _signed(archive):
    """(payload, signature) of a signature's archive. Each blob is what its digest says."""
    with tarfile.open(archive) as tar:
        def blob(described):
            data = tar.extractfile("blobs/" + described["digest"].replace(":", "/")).read()
            if _digest(data) != described["digest"]:
                raise ValueError(f"{described['digest']} has other bytes")
            return data

        entries = json.load(tar.extractfile("index.json"))["manifests"]
        [entry] = [each for each in entries if each.get("annotations", {}).get(KIND) == OF_SIGNATURES]
        [layer] = json.loads(blob(entry))["layers"]
        return blob(layer), base64.b64decode(layer["annotations"][SIGNATURE], validate=True)


def _index_entry(archive):
    """The entry of the image's index in the archive's index.json, whose digest is right."""
    with tarfile.open(archive) as tar:
        [entry] = json.load(tar.extractfile("index.json"))["manifests"]
        found = _digest(tar.extractfile("blobs/" + entry["digest"].replace(":", "/")).read())
    if found != entry["digest"]:
        raise Stop(f"{archive} is damaged: its index is {found} and not {entry['digest']}")
    return entry


def _described(data, kind):
    return {"mediaType": kind, "size": len(data), "digest": _digest(data)}


def _digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _json(value):
    return json.dumps(value, separators=(",", ":")).encode()


def _openssl(*arguments, given=b""):
    done = subprocess.run(["openssl", *map(str, arguments)], input=given, capture_output=True, timeout=PATIENCE)
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise Stop(f"openssl {arguments[0]} failed: {said.splitlines()[-1] if said else done.returncode}")
    return done.stdout
