"""Lockstep and the tests' images on the nodes of a cluster, as a user would install it."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
NAMESPACE = "lockstep-system"


# Images that jobs run; the first is on every node from the start.
BUSYBOX, PYTHON, TORCH = "lockstep.test/busybox:1", "lockstep-test/python:1", "lockstep-test/torch:1"


def install(cluster):
    """Builds what is not built yet."""
    subprocess.run([ROOT / "tools/images"], check=True)
    subprocess.run([ROOT / "tests/images/build"], check=True)
    archives = CACHE / "lockstep/images"
    subprocess.run([ROOT / "tests/cluster/load", "--dir", cluster.folder,
                    *(archives / f"{name}.tar"
                      for name in ("operator", "worker", "test-python", "test-torch"))], check=True)
    cluster.helm("upgrade", "--install", "lockstep", ROOT / "helm/lockstep", "--namespace",
                 NAMESPACE, "--create-namespace", "--wait", "--timeout", "5m")
