"""How a release was made: an in-toto statement with SLSA's provenance, for every file of a release."""

import json
import platform
import re

import checks
import image_signature
import sums

NAME = "provenance.json"
WHEELS = "docker/cuda-libraries.txt"
KIND = "https://lockstep.dev/release/v1"  # a name for `tools/release`, as SLSA asks for


def statement(release, files):
    """For {name: SHA-256} `files`."""
    commit = checks.git(release.tree, "rev-parse", "HEAD")
    said = release.ask_build("dpkg-query", "-W", "-f", "${Package}=${Version}\n", "clang-19", "lld-19",
                             "libc6-dev", "libssl-dev", "cmake", "ninja-build").split()
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in files.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": KIND,
                "externalParameters": {"version": release.version},
                "internalParameters": {"machine": platform.machine(), "stepsLeftOut": release.left_out},
                "resolvedDependencies": [
                    {"name": "lockstep", "digest": {"gitCommit": commit}},
                    *({"name": package.partition("=")[0], "annotations": {"version": package.partition("=")[2]}}
                      for package in said),
                    *wheels((release.tree / WHEELS).read_text())],
            },
            "runDetails": {"builder": {"id": KIND}},
        },
    }


def wheels(text):
    """The entries for NVIDIA's libraries in the image of worker-cuda: a wheel for each architecture."""
    found = re.findall(r"^([\w-]+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE)
    return [{"name": name, "annotations": {"version": version}, "digest": {"sha256": digest}}
            for name, version, hashes in found for digest in re.findall("[0-9a-f]{64}", hashes)]


def is_current(folder):
    """Whether the statement in `folder` is about the files that SHA256SUMS lists."""
    listed = set(_stated(folder).items())
    subject = json.loads((folder / NAME).read_text())["subject"]
    return listed == {(each["name"], each["digest"]["sha256"]) for each in subject}


def _stated(folder):
    """{name: SHA-256} of the files that a statement is about: those that there are before images are signed."""
    return {name: digest for name, digest in _listed(folder).items()
            if name not in (NAME, image_signature.PUBLIC) and not image_signature.is_signature(name)}


def _listed(folder):
    lines = re.findall(r"^([0-9a-f]{64})  (.*)$", (folder / sums.SUMS).read_text(), re.MULTILINE)
    return {name: digest for digest, name in lines}


def write(release):
    """Its own sum is in SHA256SUMS; the statement lists all other files but signatures of images."""
    (release.dist / NAME).unlink(missing_ok=True)
    sums.write(release.dist)
    made = statement(release, _stated(release.dist))
    (release.dist / NAME).write_text(json.dumps(made, indent=1) + "\n")
