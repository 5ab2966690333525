#!/usr/bin/env python3
"""Programs that tests run and Debian lacks, built from pinned Go modules.

`parts.py GROUP...` builds what is missing of these groups, and prints the folders where the
programs lie: one a group, outside the source tree, and another one for every other go.mod, so a
clone finds what an older one has built.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
CACHE /= "lockstep"
FOLDER = CACHE / "cluster"


class Group(typing.NamedTuple):
    """Programs of one module: what they share is compiled once."""

    module: pathlib.Path  # the folder of its go.mod
    programs: dict  # name: package
    minutes: float  # that they take on 2 cores, when nothing of them is built
    tags: str = ""  # of `go build`

    @property
    def flags(self):
        return [*FLAGS, "-tags", self.tags] if self.tags else FLAGS


GROUPS = {
    "control-plane": Group(HERE, {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        "kwok": "sigs.k8s.io/kwok/cmd/kwok",
        "helm": "helm.sh/helm/v4/cmd/helm",
    }, minutes=5),
    "node": Group(HERE, {
        "kubelet": "k8s.io/kubernetes/cmd/kubelet",
        "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    }, minutes=1),
    "device-plugin": Group(HERE, {"device-plugin": "./device_plugin"}, minutes=0.5),
    "kstatus": Group(HERE, {"kstatus": "./kstatus"}, minutes=0.5),
    "containers": Group(HERE / "containers", {
        "containerd": "github.com/containerd/containerd/v2/cmd/containerd",
        "containerd-shim-runc-v2":
            "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        "ctr": "github.com/containerd/containerd/v2/cmd/ctr",
        "bridge": "github.com/containernetworking/plugins/plugins/main/bridge",
        "loopback": "github.com/containernetworking/plugins/plugins/main/loopback",
        "host-local": "github.com/containernetworking/plugins/plugins/ipam/host-local",
        "portmap": "github.com/containernetworking/plugins/plugins/meta/portmap",
    }, minutes=1),
    "coredns": Group(HERE / "coredns", {"coredns": "github.com/coredns/coredns"}, minutes=2),
    "helm": Group(HERE / "helm", {
        "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform",
        "helm-unittest": "github.com/helm-unittest/helm-unittest/cmd/helm-unittest",
    }, minutes=1),
    # Finds targets by Kubernetes alone, without the clients of a dozen clouds.
    "monitoring": Group(HERE / "monitoring", {
        "promtool": "github.com/prometheus/prometheus/cmd/promtool",
        "prometheus": "github.com/prometheus/prometheus/cmd/prometheus",
    }, minutes=2, tags="remove_all_sd,enable_kubernetes_sd"),
    "objects": Group(HERE / "objects", {"versitygw": "github.com/versity/versitygw/cmd/versitygw"},
                     minutes=1),
    "s3": Group(HERE.parents[2] / "worker/s3", {"lockstep-s3": "."}, minutes=1),
    "katib": Group(HERE.parents[2] / "tests/system/frameworks/katib", {"katib-verdict": "."}, minutes=0.1),
    "kueue": Group(HERE / "kueue", {"kueue": "sigs.k8s.io/kueue/cmd/kueue"}, minutes=4),
    "peers": Group(HERE.parents[2] / "bench/peers", {"jobset": "sigs.k8s.io/jobset"}, minutes=1),
}
# How kwok's nodes and pods behave: at once, with no delays of their own.
STAGES = ["node/fast", "node/heartbeat-with-lease", "pod/fast"]
FLAGS = ["-trimpath", "-buildvcs=false"]


class BuildError(Exception):
    pass


def is_built(name):
    return (_folder(name) / "complete").exists()


def build(name, say):
    """The folder with a group's programs; `say` hears what is being built and how long it took."""
    group = GROUPS[name]
    folder = _folder(name)
    if is_built(name):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock", say):
        for count, (program, package) in enumerate(group.programs.items(), 1):
            if not (folder / program).exists():
                say(f"building {program}, {count} of {len(group.programs)} of {name}, once")
                started = time.monotonic()
                _build_one(group, folder / program, package)
                say(f"built {program} in {time.monotonic() - started:.0f} s")
        if "kwok" in group.programs:
            _write_stages(folder / "stages.yaml")
        (folder / "complete").touch()
    return folder


def files(module):
    """The folder with the files of NAME@VERSION, which Go's cache keeps."""
    return _downloaded(HERE, module)


def source(name, module):
    """The folder with the files of a module, in the version that a group's go.mod names."""
    return _downloaded(GROUPS[name].module, module)


def _downloaded(folder, module):
    return pathlib.Path(json.loads(_go(folder, "mod", "download", "-json", module))["Dir"])


def _folder(name):
    group = GROUPS[name]
    digest = hashlib.sha256()
    digest.update(repr((group.programs, STAGES, group.flags)).encode())
    for file in ("go.mod", "go.sum"):
        digest.update((group.module / file).read_bytes())
    for package in group.programs.values():
        if package.startswith("."):  # a source of this tree
            for file in sorted((group.module / package).glob("*.go")):
                digest.update(file.read_bytes())
    return FOLDER / f"{name}-{digest.hexdigest()[:12]}"


def _build_one(group, program, package):
    # Renamed last: a build that was cut off leaves nothing that looks finished.
    unfinished = program.with_suffix(".unfinished")
    link = " ".join(["-s", "-w", *_version(group.module)])
    _go(group.module, "build", *group.flags, "-ldflags", link, "-o", unfinished, package)
    unfinished.rename(program)


def _version(module):
    """What the linker writes into programs of Kubernetes, which say v0.0.0 otherwise."""
    found = re.search(r"k8s\.io/kubernetes v((\d+)\.(\d+)\.\S+)", (module / "go.mod").read_text())
    if not found:
        return
    names = {"gitVersion": "v" + found[1], "gitMajor": found[2], "gitMinor": found[3]}
    for name, value in names.items():
        yield from ("-X", f"k8s.io/component-base/version.{name}={value}")


def _write_stages(target):
    kwok = source("control-plane", "sigs.k8s.io/kwok")
    files = [file for stage in STAGES
             for file in sorted((kwok / "kustomize/stage" / stage).glob("*.yaml"))]
    texts = [text for text in map(pathlib.Path.read_text, files) if "kind: Stage" in text]
    target.write_text("---\n".join(texts))


def _go(module, *arguments):
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    try:
        done = subprocess.run([_compiler(), *arguments], cwd=module, env=environment, text=True,
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
    def tell(text):
        print(f"cluster: {text}", file=sys.stderr, flush=True)

    wanted = list(dict.fromkeys(sys.argv[1:]))
    unknown = set(wanted) - set(GROUPS)
    if unknown or not wanted:
        sys.exit(f"cluster: no group {' '.join(unknown)!r}; there are {', '.join(GROUPS)}")
    missing = [name for name in wanted if not is_built(name)]
    if missing:
        tell(f"building {', '.join(missing)} from source, once: about "
             f"{sum(GROUPS[name].minutes for name in missing):.0f} minutes on 2 cores")
    try:
        for each in wanted:
            print(build(each, tell))
    except BuildError as error:
        sys.exit(f"cluster: {error}")
