"""Makes lockstep-trainer-VERSION-linux-ARCH.tar.gz: the built-in trainer with its own loader.

The trainer opens CUDA and NCCL while it runs, so it is not static. The tarball holds its shared
libraries and the C library of the Debian that it was built with, and so runs on any Linux of ARCH:

  tar -xzf lockstep-trainer-*.tar.gz -C ~/.local --strip-components 1

bin/lockstep-trainer is a script that starts the loader. Libraries of the computer that runs it come
last: LD_LIBRARY_PATH, and where its own loader looks. NCCL and cuBLASLt are found there.
"""

import os
import pathlib
import re
import shutil
import subprocess

import linked
import staging
import tarball
from errors import PackageError

SUMMARY = "make a tarball of the built-in trainer with its loader and libraries"

NAME = "lockstep-trainer"
# Of each architecture: its loader, and Debian's name for its folders of libraries.
LOADERS = {"amd64": "ld-linux-x86-64.so.2", "arm64": "ld-linux-aarch64.so.1"}
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
# These are empty in today's C library, but libraries such as NCCL name them. Without them, the loader
# would take the host's, which belong to another C library.
STUBS = ["libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2", "libanl.so.1"]
SCRIPT = f"""#!/bin/sh
# Runs the trainer with the C library and the other libraries that it was built with.
folder=$(dirname "$(readlink -f "$0")")/../lib/{NAME}
exec "$folder/LOADER" --argv0 "$0" --library-path "$folder${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" \\
  "$folder/{NAME}" "$@"
"""
SYSROOT = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lockstep/arm64/sysroot"


def add_arguments(parser):
    parser.add_argument("--arch", action="append", choices=list(LOADERS),
                        help="an architecture; may be repeated (without it: amd64)")
    parser.add_argument("--no-build", action="store_true",
                        help="take the program that an earlier build left")
    parser.add_argument("--out", type=pathlib.Path, default=staging.ROOT / "build/dist", metavar="DIR",
                        help="the folder for the tarball (without it: build/dist)")


def run(options):
    for architecture in dict.fromkeys(options.arch or ["amd64"]):
        if not options.no_build:
            build(architecture)
        options.out.mkdir(parents=True, exist_ok=True)
        tree = staging.STAGE / architecture / "trainer"
        make_tree(program(architecture), architecture, tree, staging.source_date())
        name = f"{NAME}-{staging.version()}-linux-{architecture}"
        print(tarball.pack(tree, name, options.out / f"{name}.tar.gz"))


def build(architecture):
    staging.build(architecture, [NAME])


def program(architecture):
    """The path of the trainer that a build left."""
    path = staging.ROOT / "build" / staging.PRESETS[architecture] / "bin" / NAME
    if not path.is_file():
        raise PackageError(f"{path.relative_to(staging.ROOT)} is missing; build it, or leave out --no-build")
    return path


def libraries(file, architecture):
    """{name: path here} of the loader and of what it loads for the program `file`, in the folders of Debian."""
    root = pathlib.Path("/") if architecture == "amd64" else SYSROOT
    triplet = TRIPLETS[architecture]
    folders = [root / name for name in (f"lib/{triplet}", f"usr/lib/{triplet}", "lib", "usr/lib")]
    found, new = {}, [file]
    while new:
        for name in _needed(new.pop()):
            if name not in found:
                found[name] = _library(name, folders, file)
                new.append(found[name])
    if "libc.so.6" not in found:
        raise PackageError(f"{file} is no program with shared libraries")
    return {**found, **{name: _library(name, folders, file) for name in (LOADERS[architecture], *STUBS)}}


def _library(name, folders, asking):
    path = next((folder / name for folder in folders if (folder / name).exists()), None)
    if not path:
        raise PackageError(f"{asking} needs {name}, which is in none of {', '.join(map(str, folders))}")
    return path.resolve()


def _needed(file):
    """The names of the libraries that an ELF file asks its loader for."""
    done = subprocess.run(["readelf", "--wide", "--dynamic", file], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise PackageError(f"readelf failed: {done.stderr.strip()}")
    return re.findall(r"\(NEEDED\) .*\[(.*)\]", done.stdout)


def make_tree(file, architecture, tree, date):
    """Fills the folder `tree` with the program `file` and what it needs."""
    shutil.rmtree(tree, ignore_errors=True)
    folder, documents = tree / "lib" / NAME, tree / "share/doc" / NAME
    for each in (tree / "bin", folder, documents / "copyright"):
        each.mkdir(parents=True)
    loader = LOADERS[architecture]
    (tree / "bin" / NAME).write_text(SCRIPT.replace("LOADER", loader))
    (tree / "bin" / NAME).chmod(0o755)
    files = libraries(file, architecture)
    for name, path in {**files, NAME: file}.items():
        shutil.copyfile(path, folder / name)
        (folder / name).chmod(0o755 if name in (NAME, loader) else 0o644)
    for package in linked.packages(files.values()):
        shutil.copyfile(package.copyright, documents / "copyright" / package.name)
    for name, path in staging.texts().items():
        shutil.copyfile(path, documents / name)
    for path in [*tree.rglob("*"), tree]:
        os.utime(path, (date, date), follow_symlinks=False)
