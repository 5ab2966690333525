"""The tree that packages and tarballs install, made of the staged programs: build/stage/ARCH/tree.

It has bin/, share/man/man1/, completions and licences, and only files whose time is that of the
source. The programs of this computer's architecture write the manual pages and completions.
"""

import gzip
import os
import pathlib
import platform
import shutil
import subprocess
import time

import staging
from errors import PackageError

PAGES = pathlib.Path(__file__).parent / "man"  # of programs that do not use CLI11
COMPLETIONS = {"bash": "share/bash-completion/completions/lockstep",
               "zsh": "share/zsh/site-functions/_lockstep",
               "fish": "share/fish/vendor_completions.d/lockstep.fish",
               "kubectl": "bin/kubectl_complete-lockstep"}
HOSTS = {"x86_64": "amd64", "aarch64": "arm64"}


def make_trees(options):
    """Stages the programs that the options of add_stage_arguments() name; yields (ARCH, tree)."""
    stages = staging.stage_all(options)
    host = HOSTS.get(platform.machine())
    if host is None:
        raise PackageError(f"packages cannot be made on {platform.machine()}")
    writers = next((each for each in stages if each.name == host), None)
    writers = writers or staging.stage(host, compile_first=not options.no_build)
    for stage in stages:
        yield stage.name, make_tree(stage, writers / "bin", staging.source_date())


def make_tree(stage, writers, date):
    """Fills `stage`/tree from `stage`/bin. The programs in the folder `writers` must run here."""
    tree = stage / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(stage / "bin", tree / "bin", symlinks=True)
    write_completions(tree, writers)
    write_pages(tree, writers, date)
    documents = tree / "share/doc/lockstep"
    documents.mkdir(parents=True)
    for name, path in staging.texts().items():
        shutil.copyfile(path, documents / name)
    for path in [*tree.rglob("*"), tree]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        os.utime(path, (date, date), follow_symlinks=False)
    return tree


def write_completions(tree, writers):
    for shell, path in COMPLETIONS.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(subprocess.check_output([writers / "lockstep", "completion", shell]))


def write_pages(tree, writers, date):
    folder = tree / "share/man/man1"
    folder.mkdir(parents=True)
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(date)}
    subprocess.run([writers / "lockstep", "man", folder], env=environment, check=True)
    (folder / "lockstep-operator.1").write_bytes(
        subprocess.check_output([writers / "lockstep-operator", "--help-man"], env=environment))
    day = time.strftime("%Y-%m-%d", time.gmtime(date))
    for page in PAGES.glob("*.1"):
        text = page.read_text().replace("@DATE@", day).replace("@VERSION@", staging.version())
        (folder / page.name).write_text(text)
    for page in folder.glob("*.1"):
        (folder / f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
