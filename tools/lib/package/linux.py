"""Packages for Linux distributions, made by nfpm of the tree that tarballs have, too.

Their programs are static, so the packages depend on nothing. The Python modules are not in them:
docs/adr/052-linux-packages.md says why.
"""

import json
import os
import pathlib
import subprocess
import time

import staging
import tree as trees
from errors import PackageError

NFPM = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") \
    / "lockstep/package/bin/nfpm"
SUMMARY = "Runs a distributed training job as one unit"
DESCRIPTION = f"""{SUMMARY}
Every process of the job starts together, fails together and restarts together, in milliseconds.
This package holds the command line, the agent, the plugin for kubectl and the operator."""
# Where a distribution has what the tree has elsewhere.
ZSH = {"deb": "/usr/share/zsh/vendor-completions/_lockstep"}
LICENCES = {"deb": {"LICENSE": "/usr/share/doc/lockstep/copyright"},
            "rpm": {"LICENSE": "/usr/share/licenses/lockstep/LICENSE",
                    "NOTICE": "/usr/share/licenses/lockstep/NOTICE"},
            "apk": {"LICENSE": "/usr/share/licenses/lockstep/LICENSE",
                    "NOTICE": "/usr/share/licenses/lockstep/NOTICE"}}


def add_arguments(parser):
    staging.add_stage_arguments(parser)
    parser.add_argument("--out", type=pathlib.Path, default=staging.ROOT / "build/dist",
                        metavar="DIR", help="the folder for the packages (without it: build/dist)")


def run(kind, options):
    """Makes a package of `kind`, deb, rpm or apk, for each architecture of the options."""
    subprocess.run([staging.ROOT / "tools/deps", "--packaging"], check=True)
    options.out.mkdir(parents=True, exist_ok=True)
    for architecture, tree in trees.make_trees(options):
        print(make_package(kind, architecture, tree, options.out))


def make_package(kind, architecture, tree, out):
    """Makes the package and returns its path in the folder `out`."""
    date = staging.source_date()
    config = tree.parent / f"nfpm-{kind}.json"
    config.write_text(json.dumps(configuration(kind, architecture, tree, date), indent=1))
    before = set(out.iterdir())
    done = subprocess.run([NFPM, "package", "--config", config, "--packager", kind, "--target", out],
                          env=os.environ | {"SOURCE_DATE_EPOCH": str(date)}, cwd=tree, check=False,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise PackageError(f"nfpm could not make the {kind}: {(done.stderr or done.stdout).strip()}")
    made = set(out.glob(f"*.{kind}")) - before
    return made.pop() if made else max(out.glob(f"*.{kind}"), key=lambda path: path.stat().st_mtime_ns)


def configuration(kind, architecture, tree, date):
    """What nfpm reads; JSON is YAML, too."""
    return {
        "name": "lockstep", "arch": architecture, "platform": "linux",
        "version": staging.version(), "release": "1", "section": "utils", "priority": "optional",
        "maintainer": "The Lockstep authors <lockstep@localhost>", "description": DESCRIPTION,
        "license": "Apache-2.0", "mtime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date)),
        "contents": contents(kind, tree),
        # Every dpkg and rpm reads gzip. xz saves an eighth, and takes ten times as long.
        "deb": {"compression": "gzip"},
        "rpm": {"summary": SUMMARY, "compression": "gzip", "buildhost": "lockstep"},
    }


def contents(kind, tree):
    rows = []
    for path in sorted(tree.rglob("*")):
        name = str(path.relative_to(tree))
        row = {"src": str(path), "dst": destination(kind, name)}
        if path.is_symlink():
            rows.append(row | {"src": str(path.readlink()), "type": "symlink"})
        elif path.is_file():
            rows.append(row | {"file_info": {"mode": path.stat().st_mode & 0o777}})
    return rows


def destination(kind, name):
    if name == trees.COMPLETIONS["zsh"] and kind in ZSH:
        return ZSH[kind]
    folder, _, last = name.rpartition("/")
    if folder == "share/doc/lockstep":
        return LICENCES[kind].get(last, f"/usr/{name}")
    return f"/usr/{name}"
