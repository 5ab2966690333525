"""Makes lockstep-operator-VERSION.oci.tar: an OCI index of the operator's image for each architecture.

buildah makes it of the staged static programs, with neither Docker nor a registry. The same programs
give the same digest, which is printed behind the path as NAME=DIGEST, as `tools/package chart` takes it.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

import staging
from errors import PackageError

SUMMARY = "make the operator's image as an OCI index of all architectures"

RECIPE = staging.ROOT / "docker/operator.Containerfile"
# kubectl-lockstep is for `helm test`.
PROGRAMS = ["lockstep-operator", "kubectl-lockstep"]
LABELS = {"title": "Lockstep operator", "licenses": "Apache-2.0",
          "description": "Runs TrainingJobs on a Kubernetes cluster"}
PATIENCE = 600  # seconds for one command of buildah


def add_arguments(parser):
    staging.add_stage_arguments(parser)
    parser.add_argument("--out", type=pathlib.Path, default=staging.ROOT / "build/dist", metavar="DIR")
    parser.add_argument("--push", metavar="REGISTRY", help="also push it as REGISTRY/lockstep/operator")


def run(options):
    stages = {folder.name: folder / "bin" for folder in staging.stage_all(options)}
    options.out.mkdir(parents=True, exist_ok=True)
    archive = path(options.out, staging.version())
    make(stages, archive, staging.source_date(), options.push)
    print(f"{archive} operator={digest(archive)}")


def path(out, version, name="operator"):
    """Of the archive of lockstep/`name` in the folder `out`."""
    return out / f"lockstep-{name}-{version}.oci.tar"


def make(stages, path, seconds, registry=None):
    """Writes the index of {architecture: folder of programs} to `path`, and pushes it to `registry`."""
    fill = {architecture: functools.partial(_make_root, folder=folder) for architecture, folder in stages.items()}
    make_index("operator", RECIPE, LABELS, fill, path, seconds, registry)


def make_index(name, recipe, labels, fill, path, seconds, registry=None):
    """Writes the index of lockstep/`name` to `path`. {architecture: function} `fill` makes the root file systems,
    each in the folder that it is given; the `recipe` copies them.
    """
    if not shutil.which("buildah"):
        raise PackageError("buildah is missing: run tools/deps --images")
    with tempfile.TemporaryDirectory(prefix="lockstep-image-") as scratch:
        scratch = pathlib.Path(scratch)
        for architecture, make_root in fill.items():
            make_root(scratch / "context" / architecture)
        tag = f"lockstep/{name}:{staging.version()}"
        labels = {**labels, "version": staging.version()}
        # A storage of its own, without overlays: nothing of it stays.
        buildah = ["buildah", "--root", scratch / "storage", "--runroot", scratch / "run",
                   "--storage-driver", "vfs"]
        # One at a time: of several in one call, the one that ends first is the first of the index.
        for architecture in sorted(fill):
            _run(*buildah, "build", "--layers", "--isolation", "chroot", "--pull-never", "--format", "oci",
                 "--platform", f"linux/{architecture}", "--manifest", tag, "--timestamp", str(seconds),
                 *(f"--label=org.opencontainers.image.{key}={value}" for key, value in labels.items()),
                 "--file", recipe, scratch / "context")
        _run(*buildah, "manifest", "push", "--all", tag, f"oci-archive:{scratch / 'index.tar'}:{tag}")
        _repack(scratch / "index.tar", path, seconds)
        if registry:
            # As tools/images: a registry on this computer has no certificate.
            local = re.match(r"(localhost|127\.[0-9.]+)(:|/|$)", registry)
            _run(*buildah, "manifest", "push", "--all", *(["--tls-verify=false"] if local else []), tag,
                 f"docker://{registry}/{tag}")


def _repack(archive, path, seconds):
    """The same files in order, with one time."""
    with tarfile.open(archive) as old, \
            tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as new:
        for entry in sorted((entry for entry in old if entry.isfile()), key=lambda entry: entry.name):
            made = tarfile.TarInfo(entry.name)
            made.size, made.mtime, made.mode = entry.size, seconds, 0o644
            new.addfile(made, old.extractfile(entry))


def _make_root(root, folder):
    (root / "etc").mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("lockstep:x:65532:65532::/:/sbin/nologin\n")
    (root / "etc/group").write_text("lockstep:x:65532:\n")
    documents = root / "usr/share/doc/lockstep"
    documents.mkdir(parents=True)
    for name, text in staging.texts().items():
        shutil.copyfile(text, documents / name)
    for name in PROGRAMS:
        shutil.copyfile(folder / name, root / name)  # a link becomes what it leads to
        (root / name).chmod(0o755)


def digest(path):
    """The digest of the index in an archive, by which a registry knows it."""
    with tarfile.open(path) as tar:
        [entry] = json.load(tar.extractfile("index.json"))["manifests"]
    return entry["digest"]


def _run(*command):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True,
                          timeout=PATIENCE, env={**os.environ, "BUILDAH_ISOLATION": "chroot"})
    if done.returncode:
        raise PackageError(f"{command[0]} failed: {done.stderr.strip()[-800:]}")
