"""Where the demos on a Kubernetes of three nodes play: the cluster of tools/cluster with Lockstep
installed, and every command shown as a person would type it."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/cluster"
SHARED = pathlib.Path("/tmp/lockstep-demo-cluster")  # what a file server is elsewhere
PATIENCE = 600.0  # seconds for any one thing
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {{name: checkpoints}}
spec:
  accessModes: [ReadWriteMany]
  capacity: {{storage: 1Gi}}
  storageClassName: ""
  hostPath: {{path: {folder}}}
  claimRef: {{namespace: default, name: checkpoints}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: checkpoints}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: checkpoints
  resources: {{requests: {{storage: 1Gi}}}}
"""


def say(text):
    print(f"\n  demo: {text}", flush=True)


def environment():
    path = f"{FOLDER}/bin:{os.environ['PATH']}"
    return {**os.environ, "KUBECONFIG": str(FOLDER / "kubeconfig"), "PATH": path}


def run(command, **options):
    print(f"\n$ {command}", flush=True)
    subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment(), check=True, **options)


def output(*command):
    return subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True,
                          text=True).stdout


def status(job):
    return json.loads(output("kubectl", "get", "tj", job, "-o", "json")).get("status", {})


def wait(job, condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline or status(job).get("state") == "Failed":
            sys.exit(f"demo: waited in vain for {what}; with --keep, see: "
                     f"tools/cluster shell kubectl describe tj {job}")
        time.sleep(0.2)


@contextlib.contextmanager
def installed_cluster(*options):
    """Lockstep by its chart, with these options of helm's, for as long as the context lasts; longer
    if the demo was called with --keep."""
    keep = "--keep" in sys.argv[1:]
    try:
        say("three nodes, each with a kubelet, containerd and a network of its own")
        run("tools/cluster up")
        run("tools/cluster load ~/.cache/lockstep/images/{operator,worker}.tar")
        run("kubectl get nodes")
        say("Lockstep, by its chart")
        run(" ".join(["helm install lockstep helm/lockstep -n lockstep-system --create-namespace"
                      " --wait --hide-notes", *options]))
        run("kubectl -n lockstep-system get pods -o wide")
        yield
    finally:
        if not keep:
            run("tools/cluster down")
            shutil.rmtree(SHARED, ignore_errors=True)
    if keep:
        say("the cluster is still up:")
        print("    tools/cluster shell                    kubectl and helm talk to it\n"
              "    tools/cluster shell kubectl get tj -w\n"
              "    tools/cluster down                     takes it down")


def make_volume():
    shutil.rmtree(SHARED, ignore_errors=True)
    SHARED.mkdir()
    SHARED.chmod(0o777)  # the trainer is no root
    run("kubectl apply -f -", input=VOLUME.format(folder=SHARED), text=True)


def submit(example, changes):
    """Of examples/, with these changes."""
    run(f"kubectl patch --local -f examples/{example} -o yaml --type merge"
        f" --patch '{json.dumps(changes)}' | kubectl apply -f -")


@contextlib.contextmanager
def watched(*arguments):
    """What kubectl says of jobs meanwhile is shown as it comes."""
    watch = subprocess.Popen(["kubectl", "get", "tj", *arguments, "--watch"], env=environment())
    try:
        yield
    finally:
        watch.terminate()
        watch.wait()
