#!/usr/bin/env python3
"""`kubectl lockstep sync --watch`: from the write of an edited file to the first step of the new code,
on a real API server, with the real operator and an agent for each machine on this computer.

    tools/bench sync_cluster -- --shape 3x2
    tools/bench sync_cluster -- --shape 64x1 --tree 10
    tools/bench sync_cluster -- --shape 3x2 --program torch

`kubectl exec` runs the receiver as kubelet would, so the network's share is not in the figures.

    first    the first sync of the whole folder, until all ranks have done a step
    rank0    an edit of one small file, until rank 0 has done a step
    all      likewise, until all ranks have

Programs: `sh` makes a file and sleeps, so the figures are Lockstep's own; `torch` trains a small
model under DistributedDataParallel over Gloo, with parked interpreters.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _bench import AGENT, BIN, ROOT, Shape, emit, quantile, spread
from agent_kubelet import AgentKubelet
from cluster import cluster_in
from jobs import Jobs, operator
from waiting import wait_until

# A rank's first step makes the file VERSION.RANK: its time is the kernel's.
SHELL = """\
read version < version
: > {out}/$version.$RANK
exec sleep infinity
"""
TORCH = """\
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import lockstep

torch.set_num_threads(1)
dist.init_process_group("gloo")
net = DistributedDataParallel(torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
version = open("version").read().strip()
for step in range(1, 1_000_000):
    optimizer.zero_grad()
    net(torch.randn(64, 64)).square().mean().backward()
    optimizer.step()
    if step == 1:
        open("{out}/%s.%d" % (version, dist.get_rank()), "w").close()
    lockstep.report(step=step)
    time.sleep(0.02)
"""
KUBECTL = """\
#!/bin/sh
pod=$2
while [ "$1" != -- ]; do shift; done
exec {agent} --sync-receive {folder}/$pod/run
"""
FILES = 40  # of which a tree is made
PATIENCE = 300


class SyncedJob:
    def __init__(self, jobs, folder, arguments):
        self.jobs, self.shape = jobs, arguments.shape
        self.out, self.code, self.image = folder / "out", folder / "code", folder / "image"
        self.torch = arguments.program == "torch"
        for each in (self.out, self.code, self.image, folder / "bin"):
            each.mkdir()
        name, text = ("train.py", TORCH) if self.torch else ("train.sh", SHELL)
        for each in (self.code, self.image):
            (each / name).write_text(text.replace("{out}", str(self.out)))
        self.edit(0, self.image)
        for index in range(FILES if arguments.tree else 0):
            (self.code / f"part{index}.bin").write_bytes(os.urandom(arguments.tree * 2**20 // FILES))
        kubectl = folder / "bin/kubectl"
        kubectl.write_text(KUBECTL.format(agent=AGENT, folder=folder))
        kubectl.chmod(0o755)
        spec = {"numMachines": self.shape.machines, "processesPerMachine": self.shape.processes,
                "image": "example.com/test:1", "framework": "None", "topology": {"bind": "None"},
                "sync": {}, "workingDir": str(self.image), "command": ["sh", "train.sh"]}
        if self.torch:
            spec.update(framework="PyTorch", prestart="Always",
                        command=[arguments.python, "train.py"],
                        env=[{"name": "PYTHONPATH", "value": str(ROOT / "worker/python")}])
        jobs.kubectl("apply", "-f", "-", input=json.dumps({
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "gpt"}, "spec": spec}))
        self.first_steps(0)
        self.log = (folder / "sync.log").open("w")
        self.environment = {**os.environ, "KUBECONFIG": str(jobs.cluster.kubeconfig),
                            "PATH": f"{kubectl.parent}:{os.environ['PATH']}"}

    def watch(self):
        self.process = subprocess.Popen(
            [BIN / "kubectl-lockstep", "sync", "-n", self.jobs.namespace, "gpt", self.code, "--watch"],
            env=self.environment, stdout=self.log, stderr=self.log)

    def edit(self, version, folder=None):
        """When."""
        began = time.time()
        ((folder or self.code) / "version").write_text(f"{version}\n")
        return began

    def first_steps(self, version):
        """When rank 0 and when the last rank did its first step."""
        files = [self.out / f"{version}.{rank}" for rank in range(self.shape.world)]
        wait_until(lambda: all(file.exists() for file in files),
                   lambda: f"version {version}; {self.jobs.status('gpt')}", PATIENCE, 0.05)
        times = [file.stat().st_mtime for file in files]
        return times[0], max(times)

    def settle(self):
        """Until all interpreters of this generation wait, and the command has said that it runs."""
        def waits():
            status = self.jobs.status("gpt")
            return status.get("prestart", {}).get("ready", 0) >= self.shape.world
        if self.torch:
            # What is counted may be from before the last generation.
            time.sleep(2)
            wait_until(waits, "interpreters that wait", PATIENCE, 0.2)
        time.sleep(1)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        self.log.close()
        sys.stderr.write(Path(self.log.name).read_text())


def measure(job, samples, shape):
    began = job.edit(1)
    job.watch()
    emit("sync_cluster", "first", **shape, unit="s", value=round(job.first_steps(1)[1] - began, 3))
    rank0, every = [], []
    try:
        for version in range(2, samples + 2):
            job.settle()
            began = job.edit(version)
            first, last = job.first_steps(version)
            rank0.append(first - began)
            every.append(last - began)
    finally:
        job.end()
    for figure, values in (("rank0", rank0), ("all", every)):
        emit("sync_cluster", figure, **shape, unit="s", **spread(values),
             p95=round(quantile(values, 0.95), 3))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=Shape.parse, default=Shape(3, 2))
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--tree", type=int, default=0, help="MiB of other files in the folder")
    parser.add_argument("--program", choices=("sh", "torch"), default="sh")
    parser.add_argument("--python", default="/usr/bin/python3", help="has torch")
    arguments = parser.parse_args()
    shape = {"shape": str(arguments.shape), "program": arguments.program, "treeMiB": arguments.tree}
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as name:
        folder = Path(name)
        with cluster_in(folder / "cluster") as cluster, cluster.namespace() as namespace:
            cluster.install_crd()
            with AgentKubelet(cluster, namespace, folder) as kubelet, \
                    operator(cluster.kubeconfig, folder, "--namespace", namespace,
                             "--system-namespace", namespace):
                jobs = Jobs(cluster, namespace, kubelet, folder)
                measure(SyncedJob(jobs, folder, arguments), arguments.samples, shape)
                jobs.kubectl("delete", "tj", "gpt", "--wait=true")


if __name__ == "__main__":
    main()
