"""Makes lockstep-trainer-VERSION-linux-amd64.tar.gz: the built-in trainer with its own loader.

The trainer opens CUDA and NCCL while it runs, so it is not static. The tarball holds its shared
libraries and the C library of this computer, and so runs on any Linux of x86-64:

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
LOADER = "ld-linux-x86-64.so.2"
# These are empty in today's C library, but libraries such as NCCL name them. Without them, the loader
# would take the host's, which belong to another C library.
STUBS = ["libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2", "libanl.so.1"]
SCRIPT = f"""#!/bin/sh
# Runs the trainer with the C library and the other libraries that it was built with.
folder=$(dirname "$(readlink -f "$0")")/../lib/{NAME}
exec "$folder/{LOADER}" --argv0 "$0" --library-path "$folder${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" \\
  "$folder/{NAME}" "$@"
"""


def add_arguments(parser):
    parser.add_argument("--no-build", action="store_true",
                        help="take the program that an earlier build left")
    parser.add_argument("--out", type=pathlib.Path, default=staging.ROOT / "build/dist", metavar="DIR",
                        help="the folder for the tarball (without it: build/dist)")


def run(options):
    if not options.no_build:
        build()
    program = staging.ROOT / "build" / staging.PRESETS["amd64"] / "bin" / NAME
    if not program.is_file():
        raise PackageError(f"{program.relative_to(staging.ROOT)} is missing; build it, or leave out --no-build")
    options.out.mkdir(parents=True, exist_ok=True)
    tree = make_tree(program, staging.STAGE / "trainer", staging.source_date())
    name = f"{NAME}-{staging.version()}-linux-amd64"
    print(tarball.pack(tree, name, options.out / f"{name}.tar.gz"))


def build():
    staging.build("amd64", [NAME])


def libraries(program):
    """{name: path here} of the loader and of what it loads for `program`."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode or "=> not found" in done.stdout:
        raise PackageError(f"{program} lacks a library here: {(done.stderr or done.stdout).strip()}")
    found = dict(re.findall(r"^\s*(\S+) => (/\S+) \(", done.stdout, re.MULTILINE))
    loader = re.search(rf"^\s*(/\S*/{re.escape(LOADER)}) \(", done.stdout, re.MULTILINE)
    if not loader or "libc.so.6" not in found:
        raise PackageError(f"{program} is no program for amd64 with shared libraries")
    found = {name: pathlib.Path(path).resolve() for name, path in found.items()}
    beside = found["libc.so.6"].parent
    return {**found, LOADER: pathlib.Path(loader[1]).resolve(), **{name: beside / name for name in STUBS}}


def make_tree(program, tree, date):
    """Fills the folder `tree` and returns it."""
    shutil.rmtree(tree, ignore_errors=True)
    folder, documents = tree / "lib" / NAME, tree / "share/doc" / NAME
    for each in (tree / "bin", folder, documents / "copyright"):
        each.mkdir(parents=True)
    (tree / "bin" / NAME).write_text(SCRIPT)
    (tree / "bin" / NAME).chmod(0o755)
    files = libraries(program)
    for name, path in {**files, NAME: program}.items():
        shutil.copyfile(path, folder / name)
        (folder / name).chmod(0o755 if name in (NAME, LOADER) else 0o644)
    for package in linked.packages(files.values()):
        shutil.copyfile(package.copyright, documents / "copyright" / package.name)
    for name, path in staging.texts().items():
        shutil.copyfile(path, documents / name)
    for path in [*tree.rglob("*"), tree]:
        os.utime(path, (date, date), follow_symlinks=False)
    return tree
