"""The story that tools/demo cluster tells, on a Kubernetes of three nodes: Lockstep is installed, a
job trains on two of them, the node of one of its machines loses its power, and the job goes on from
its last checkpoint.

    cluster_demo.py [--keep]
"""

import os
import pathlib
import sys
import tempfile
import time

import stage
import yaml
from stage import FOLDER, ROOT, SHARED, output, run, say

sys.path.insert(0, str(ROOT / "tools/lib/cluster"))

import monitors
import prometheus
from nodes import Nodes

CHECKPOINTS = {"spec": {"trainer": {"checkpointEvery": 5},
                        "checkpoint": {"claim": "checkpoints", "path": "/checkpoints"}}}


def status():
    return stage.status("gpt")


def wait(condition, what):
    stage.wait("gpt", condition, what)


def scrape_configs():
    """By the chart's own monitors."""
    rendered = output("helm", "template", "lockstep", "helm/lockstep", "-n", "lockstep-system",
                      "--set", "monitoring.enabled=true")
    found = [each for each in yaml.safe_load_all(rendered)
             if each and each["kind"] in ("PodMonitor", "ServiceMonitor")]
    return monitors.scrape_configs(found, FOLDER / "kubeconfig")


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
    promtool = pathlib.Path(prometheus.program("promtool"))
    os.environ["PATH"] += f":{promtool.parent}"
    with stage.installed_cluster(), tempfile.TemporaryDirectory() as folder, \
            prometheus.Prometheus(folder, scrape_configs()) as metrics:
        say(f"a Prometheus scrapes operators and agents: {metrics.url}")
        say("a volume that every node sees, and the README's example with its checkpoints on it")
        stage.make_volume()
        stage.submit("trainingjob.yaml", CHECKPOINTS)
        tell(metrics)


def tell(metrics):
    with stage.watched("gpt"):
        wait(complete_checkpoints, "the first checkpoint")
        run("kubectl get pods -l lockstep.dev/job=gpt -o wide")
        ask(metrics, "sum by (rank) (lockstep_rank_loss)")
        lose_a_node()
        ask(metrics, "sum by (cause) (lockstep_restarts_total) > 0",
            "sum by (pod) (lockstep_operator_leader)")
        wait(lambda: status()["state"] == "Succeeded", "the job's end")
    say("it has trained to its end")
    run("kubectl get tj gpt -o wide")
    run("kubectl get tj gpt -o jsonpath='{.status.history}' | python3 -m json.tool")
    run("kubectl logs -l lockstep.dev/job=gpt,lockstep.dev/machine=0 -c worker --tail=4")


if __name__ == "__main__":
    main()
