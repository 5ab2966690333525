#!/usr/bin/env python3
"""The programs of a Kubernetes, built from the modules that go.mod pins.

`parts.py` builds what is missing and prints the folder where the programs lie. It is outside the
source tree, and another one for every other go.mod, so a clone finds what an older one has built.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
CACHE /= "lockstep"
FOLDER = CACHE / "cluster"

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "helm": "helm.sh/helm/v4/cmd/helm",
}
# How kwok's nodes and pods behave: at once, with no delays of their own.
STAGES = ["node/fast", "node/heartbeat-with-lease", "pod/fast"]
FLAGS = ["-trimpath", "-buildvcs=false"]


class BuildError(Exception):
    pass


def build(say):
    """The folder with every part in it; `say` hears what is being built and how long it took."""
    folder = FOLDER / _fingerprint()
    if (folder / "complete").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock", say):
        for count, (name, package) in enumerate(PACKAGES.items(), 1):
            if not (folder / name).exists():
                say(f"building {name}, {count} of {len(PACKAGES)}; this is done once")
                started = time.monotonic()
                _build_one(folder / name, package)
                say(f"built {name} in {time.monotonic() - started:.0f} s")
        _write_stages(folder / "stages.yaml")
        (folder / "complete").touch()
    return folder


def _fingerprint():
    digest = hashlib.sha256()
    digest.update(repr((PACKAGES, STAGES, FLAGS)).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:12]


def _build_one(program, package):
    version = re.search(r"k8s\.io/kubernetes v((\d+)\.(\d+)\.\S+)", (HERE / "go.mod").read_text())
    names = {"gitVersion": "v" + version[1], "gitMajor": version[2], "gitMinor": version[3]}
    link = ["-s", "-w"]
    for name, value in names.items():
        link += ["-X", f"k8s.io/component-base/version.{name}={value}"]
    # Renamed last: a build that was cut off leaves nothing that looks finished.
    unfinished = program.with_suffix(".unfinished")
    _go("build", *FLAGS, "-ldflags", " ".join(link), "-o", unfinished, package)
    unfinished.rename(program)


def _write_stages(target):
    module = pathlib.Path(_go("list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").strip())
    files = [file for stage in STAGES
             for file in sorted((module / "kustomize/stage" / stage).glob("*.yaml"))]
    texts = [text for text in map(pathlib.Path.read_text, files) if "kind: Stage" in text]
    target.write_text("---\n".join(texts))


def _go(*arguments):
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    try:
        done = subprocess.run([_compiler(), *arguments], cwd=HERE, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise BuildError(f"no Go: {error}; tools/deps --cluster installs it") from error
    if done.returncode != 0:
        raise BuildError(f"go {' '.join(map(str, arguments))} failed:\n{done.stderr[-4000:]}")
    return done.stdout


def _compiler():
    """The one that tools/deps --cluster found or installed, else the one on PATH."""
    installed = CACHE / "go/bin/go"
    return str(installed) if installed.exists() else "go"


@contextlib.contextmanager
def _locked(path, say):
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that builds in {path.parent}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(build(lambda text: print(f"cluster: {text}", file=sys.stderr, flush=True)))
    except BuildError as error:
        sys.exit(f"cluster: {error}")
