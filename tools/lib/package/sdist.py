"""Makes lockstep_gang-VERSION.tar.gz, from which pip installs the Python modules where no wheel fits.

It holds no programs: docs/adr/067-an-sdist-without-programs.md says why. On Linux of x86-64 and arm64,
where a wheel with the programs exists, its build ends with a sentence that names the wheel.
"""

import os
import pathlib
import shutil

import staging
import tarball
import wheel

SUMMARY = "make an sdist of the Python modules, for systems without a wheel"

# What setuptools runs before it builds. The wheel of the same version is what a user of Linux wants.
SETUP = """\
import os
import platform
import sys

from setuptools import setup

if (sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
        and not os.environ.get("LOCKSTEP_MODULES_ONLY")):
    sys.exit(
        "@NAME@: this source distribution holds the Python modules without the programs: install the wheel "
        "for this computer by `pip install --only-binary @NAME@ @NAME@` with pip 20.3 or later, or set "
        "LOCKSTEP_MODULES_ONLY=1 to install the modules alone")
setup()
"""


def add_arguments(parser):
    parser.add_argument("--out", type=pathlib.Path, default=staging.ROOT / "build/dist", metavar="DIR",
                        help="where to write it (without it: build/dist)")


def run(options):
    project = wheel.read_project()
    options.out.mkdir(parents=True, exist_ok=True)
    name = f"{project['name'].replace('-', '_')}-{project['version']}"
    tree = make_tree(project, staging.STAGE / "sdist")
    print(tarball.pack(tree, name, options.out / f"{name}.tar.gz"))


def make_tree(project, tree):
    """Fills the folder `tree` and returns it."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    sources = {name: wheel.MODULES / name for name in ["pyproject.toml", project["readme"], *project["files"]]}
    for name, path in {**sources, **staging.texts()}.items():
        (tree / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, tree / name)
    (tree / "setup.py").write_text(SETUP.replace("@NAME@", project["name"]))
    (tree / "PKG-INFO").write_text(wheel.metadata(project))
    for path in [tree, *tree.rglob("*")]:
        os.chmod(path, 0o755 if path.is_dir() else 0o644)
    return tree
