"""The story that tools/demo cluster tells, on a Kubernetes of three nodes: Lockstep is installed, a
job trains on two of them, the node of one of its machines loses its power, and the job goes on from
its last checkpoint. Every command is shown as a person would type it.

    cluster_demo.py [--keep]
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("lib", "cluster", "monitoring")]

import monitors  # noqa: E402
import prometheus  # noqa: E402
from nodes import Nodes  # noqa: E402

FOLDER = ROOT / "build/cluster"
SHARED = pathlib.Path("/tmp/lockstep-demo-cluster")  # what a file server is elsewhere
PATIENCE = 600.0  # seconds for any one thing
CHECKPOINTS = {"spec": {"trainer": {"checkpointEvery": 5},
                        "checkpoint": {"claim": "checkpoints", "path": "/checkpoints"}}}
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
    promtool = pathlib.Path(prometheus.program("promtool"))
    path = f"{FOLDER}/bin:{promtool.parent}:{os.environ['PATH']}"
    return {**os.environ, "KUBECONFIG": str(FOLDER / "kubeconfig"), "PATH": path}


def run(command, **options):
    print(f"\n$ {command}", flush=True)
    subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment(), check=True, **options)


def output(*command):
    return subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True,
                          text=True).stdout


def status():
    return json.loads(output("kubectl", "get", "tj", "gpt", "-o", "json")).get("status", {})


def wait(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline or status().get("state") == "Failed":
            sys.exit(f"demo: waited in vain for {what}; with --keep, see: "
                     "tools/cluster shell kubectl describe tj gpt")
        time.sleep(0.5)


def install():
    say("three nodes, each with a kubelet, containerd and a network of its own")
    run("tools/cluster up")
    run("tools/cluster load ~/.cache/lockstep/images/{operator,worker}.tar")
    run("kubectl get nodes")
    say("Lockstep, by its chart")
    run("helm install lockstep helm/lockstep -n lockstep-system --create-namespace --wait"
        " --hide-notes")
    run("kubectl -n lockstep-system get pods -o wide")


def scrape_configs():
    """By the chart's own monitors."""
    rendered = output("helm", "template", "lockstep", "helm/lockstep", "-n", "lockstep-system",
                      "--set", "monitoring.enabled=true")
    found = [each for each in yaml.safe_load_all(rendered)
             if each and each["kind"] in ("PodMonitor", "ServiceMonitor")]
    return monitors.scrape_configs(found, FOLDER / "kubeconfig")


def submit():
    say("a volume that every node sees, and the README's example with its checkpoints on it")
    shutil.rmtree(SHARED, ignore_errors=True)
    SHARED.mkdir()
    SHARED.chmod(0o777)  # the trainer is no root
    run("kubectl apply -f -", input=VOLUME.format(folder=SHARED), text=True)
    run("kubectl patch --local -f examples/trainingjob.yaml -o yaml --type merge"
        f" --patch '{json.dumps(CHECKPOINTS)}' | kubectl apply -f -")


def complete_checkpoints():
    return list(SHARED.glob("checkpoints/*/[0-9]*"))


def lose_a_node():
    node = output("kubectl", "get", "pod", "gpt-1", "-o", "jsonpath={.spec.nodeName}")
    say(f"{node}, where machine 1 runs, loses its power: kubelet, containerd and all containers are"
        " gone, and its link is dead. What follows takes machineLostAfter, 15 s, and a moment")
    lost = time.monotonic()
    Nodes(FOLDER).power_off(node)
    wait(lambda: status().get("restarts", {}).get("infrastructure", 0) > 0, "the node's loss")
    wait(lambda: status()["state"] in ("Running", "Succeeded"), "the job to run again")
    say(f"all ranks run again, {time.monotonic() - lost:.1f} s after the node died")
    run("kubectl get nodes")
    run("kubectl get pods -l lockstep.dev/job=gpt -o wide")
    say("the second generation took up where the first had its last checkpoint")
    run(f"tail -n +1 {SHARED}/generations/*")


def ask(metrics, *queries):
    for query in queries:
        metrics.wait(query)
        run(f"promtool query instant {metrics.url} '{query}'")


def main():
    keep = "--keep" in sys.argv[1:]
    try:
        install()
        with tempfile.TemporaryDirectory() as folder, \
                prometheus.Prometheus(folder, scrape_configs()) as metrics:
            say(f"a Prometheus scrapes operators and agents: {metrics.url}")
            submit()
            tell(metrics)
    finally:
        if not keep:
            run("tools/cluster down")
            shutil.rmtree(SHARED, ignore_errors=True)
    if keep:
        say("the cluster is still up:")
        print("    tools/cluster shell                    kubectl and helm talk to it\n"
              "    tools/cluster shell kubectl get tj -w\n"
              "    tools/cluster down                     takes it down")


def tell(metrics):
    watch = subprocess.Popen(["kubectl", "get", "tj", "gpt", "--watch"], env=environment())
    try:
        wait(complete_checkpoints, "the first checkpoint")
        run("kubectl get pods -l lockstep.dev/job=gpt -o wide")
        ask(metrics, "sum by (rank) (lockstep_rank_loss)")
        lose_a_node()
        ask(metrics, "sum by (cause) (lockstep_restarts_total) > 0",
            "sum by (pod) (lockstep_operator_leader)")
        wait(lambda: status()["state"] == "Succeeded", "the job's end")
    finally:
        watch.terminate()
        watch.wait()
    say("it has trained to its end")
    run("kubectl get tj gpt -o wide")
    run("kubectl get tj gpt -o jsonpath='{.status.history}' | python3 -m json.tool")
    run("kubectl logs -l lockstep.dev/job=gpt,lockstep.dev/machine=0 -c worker --tail=4")


if __name__ == "__main__":
    main()
