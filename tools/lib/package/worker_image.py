"""Makes lockstep-worker-VERSION.oci.tar: an OCI index of the worker's image for each architecture.

Its Debian is unpacked and not installed (tools/lib/worker-root), with neither Docker nor a registry nor an
emulator. With the same programs, and while Debian has the same packages, the digest is the same. It is printed
behind the path as NAME=DIGEST, as `tools/package chart` takes it.
"""

import functools
import shutil
import subprocess

import image
import staging
import trainer_bundle
from errors import PackageError

SUMMARY = "make the worker's image as an OCI index of all architectures"

RECIPE = staging.ROOT / "docker/worker.Containerfile"
# Pods copy the first from there (docker/worker.Dockerfile has them at the same places).
ROOT_PROGRAMS, USER_PROGRAMS = ["lockstep-agent", "lockstep-pmix", "lockstep-s3"], ["lockstep"]
LABELS = {"title": "Lockstep worker", "licenses": "Apache-2.0",
          "description": "The agent of TrainingJobs, and the built-in trainer"}


def add_arguments(parser):
    image.add_arguments(parser)


def run(options):
    make(options, "worker", RECIPE, LABELS, make_root)


def make(options, name, recipe, labels, make_roots):
    """Makes lockstep/`name`, as image.make_index does. make_roots(folder, architecture=, programs=) fills what the
    `recipe` takes for an architecture.
    """
    stages = {folder.name: folder / "bin" for folder in staging.stage_all(options)}
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.no_build:
        for architecture in stages:
            trainer_bundle.build(architecture)
    archive = image.path(options.out, staging.version(), name)
    fill = {architecture: functools.partial(make_roots, architecture=architecture, programs=folder)
            for architecture, folder in stages.items()}
    image.make_index(name, recipe, labels, fill, archive, staging.source_date(), options.push)
    print(f"{archive} {name}={image.digest(archive)}")


def make_root(root, architecture, programs):
    """Fills the folder `root` with Debian and the programs."""
    trainer = trainer_bundle.program(architecture)
    root.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([staging.ROOT / "tools/lib/worker-root", architecture, root], capture_output=True, text=True)
    if done.returncode:
        raise PackageError(f"Debian for {architecture} could not be unpacked: {done.stderr.strip()[-800:]}")
    places = {**{name: (programs / name, root / name) for name in ROOT_PROGRAMS},
              **{name: (programs / name, root / "usr/local/bin" / name) for name in USER_PROGRAMS},
              "trainer": (trainer, root / "usr/local/bin" / trainer.name)}
    (root / "usr/local/bin").mkdir(parents=True, exist_ok=True)
    for source, place in places.values():
        shutil.copyfile(source, place)
        place.chmod(0o755)
    (root / "usr/local/bin/lockstep-agent").symlink_to("/lockstep-agent")
    documents = root / "usr/share/doc/lockstep"
    documents.mkdir(parents=True)
    for name, text in staging.texts().items():
        shutil.copyfile(text, documents / name)
