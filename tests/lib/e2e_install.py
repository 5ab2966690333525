"""Lockstep and the tests' images on the nodes of a cluster, as a user would install it."""

import os
import pathlib
import subprocess

from jobs import HTTP
from paths import ROOT, VERSION

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
SYSTEM = "lockstep-system"  # where the chart is installed
SUFFIX = "" if HTTP == "curl" else f"-{HTTP}"  # of the operator's image
BUSYBOX = "lockstep.test/busybox:1"  # on every node from the start


def install(cluster):
    """Builds Lockstep's images if they are not built yet."""
    subprocess.run([ROOT / "tools/images", "--http", HTTP], check=True)
    _load(cluster, *(CACHE / "lockstep/images" / f"{name}.tar"
                     for name in (f"operator{SUFFIX}", "worker")))
    upgrade(cluster)


def provide(cluster, name):
    """The image of tests/system/images with this name, once every node has it: what jobs call it."""
    built = subprocess.run([ROOT / "tests/system/images/build", name], check=True, text=True,
                           stdout=subprocess.PIPE)
    _load(cluster, built.stdout.split()[-1])
    return f"lockstep-test/{name}:1"


def _load(cluster, *archives):
    subprocess.run([ROOT / "tools/lib/cluster/load", "--dir", cluster.folder, *archives], check=True)


def upgrade(cluster, *options):
    """The release, installed if it is not there, with these values and no others."""
    cluster.helm("upgrade", "--install", "lockstep", ROOT / "helm/lockstep", "--namespace",
                 SYSTEM, "--create-namespace", "--wait", "--timeout", "5m",
                 "--set", f"image.tag={VERSION}{SUFFIX}", *options)
