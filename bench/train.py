#!/usr/bin/env python3
"""What training costs: the built-in trainer beside the same model in PyTorch, and its own parts.

    tools/bench train
    tools/bench train -- --torch PYTHON        a Python with the torch to compare with
    tools/bench train -- --figures speed scaling

Runs of both alternate, so that neighbours disturb both alike. Every rank has one thread.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _bench import BIN, LOCKSTEP, emit
from ports import free_port

TRAINER = BIN / "lockstep-trainer"
TORCH = Path(__file__).with_name("train_torch.py")
DATA = "/usr/share/common-licenses/*"

# name: (layers, heads, width, sequence length, sequences a rank and step)
MODELS = {"nano": (4, 4, 192, 128, 8), "micro": (6, 6, 384, 256, 4)}
LIMIT_EXPOSED, LIMIT_STALL, LIMIT_TELLING = 0.20, 0.05, 0.01


def run_ranks(command, world, threads=1, peaks=None):
    """Rank 0's output of `command` in a world of so many ranks here. `peaks` gets what the others held
    at most, bytes.
    """
    port, processes = free_port(), []
    for rank in range(world):
        environment = {
            **os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
        processes.append(subprocess.Popen(
            [str(word) for word in command], env=environment, text=True,
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL))
    output, _ = processes[0].communicate()
    for process in processes[1:] if peaks is not None else []:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        peaks.append(usage.ru_maxrss * 1024)
    if any(process.wait() for process in processes):
        sys.exit(f"{' '.join(map(str, command))} failed in a world of {world}")
    return output


class Trained:
    """A run of lockstep-trainer: its records, less those of the warm-up, and what it printed."""

    def __init__(self, model, world, *options, steps=12, warmup=3, checkpoint_every=0, micro=None):
        _, _, _, length, batch = MODELS[model]
        others = []
        with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
            metrics = Path(folder, "{rank}.metrics")
            self.output = run_ranks(
                [TRAINER, "train", f"--model={model}", f"--data={DATA}", f"--metrics={metrics}",
                 f"--steps={steps + warmup}", f"--global-batch-size={batch * world}",
                 f"--micro-batch-size={micro or batch}", f"--sequence-length={length}",
                 f"--checkpoint-dir={folder}", f"--checkpoint-every={checkpoint_every}",
                 "--tensorboard=none",
                 "--compare-every=0", *options], world, peaks=others)
            everyone = [Path(folder, f"{rank}.metrics").read_text().splitlines()[warmup:]
                        for rank in range(world)]
            self.ranks = [[json.loads(line) for line in lines] for lines in everyone]
            self.records = self.ranks[0]
        self.world, self.tokens = world, batch * length * world
        self.weights = re.search(r"sha256 (\w+)", self.output)[1]
        self.peaks = [int(re.search(r"^peak memory (\d+) MB", self.output, re.M)[1]),
                      *(round(peak / 1e6) for peak in others)]

    def median(self, name):
        return statistics.median(record[name] for record in self.records)

    def least(self, name):
        """Of a step, by the rank for which it was least: the wait of the one who came last."""
        return statistics.median(min(record[name] for record in step) for step in zip(*self.ranks))

    @property
    def seconds(self):
        """Of a step, without its checkpoint."""
        return statistics.median(
            record["step_seconds"] - record["checkpoint_seconds"] for record in self.records)

    @property
    def tokens_per_second(self):
        return self.tokens / self.seconds


def torch_rate(python, model, world):
    layers, heads, width, length, batch = MODELS[model]
    said = run_ranks(
        [python, TORCH, "--layers", layers, "--heads", heads, "--width", width, "--context", length,
         "--batch", batch, "--steps", 12], world)
    figures = json.loads(said.splitlines()[-1])
    return batch * length * world / figures["step_seconds"], figures["torch"]


def find_torch():
    """The Python of this machine with the newest torch: the venv made for this, else Debian's."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    made = cache / "lockstep/torch-venv/bin/python"
    return made if made.exists() else Path("/usr/bin/python3")


def speed(arguments):
    for model in arguments.models:
        for world in (1, 2):
            ours, bf16, theirs, version = [], [], [], ""
            for _ in range(arguments.rounds):
                ours.append(Trained(model, world).tokens_per_second)
                rate, version = torch_rate(arguments.torch, model, world)
                theirs.append(rate)
                if arguments.bf16:
                    bf16.append(Trained(model, world, "--precision=bf16").tokens_per_second)
            ratios = sorted(mine / other for mine, other in zip(ours, theirs))
            emit("train", "speed", model=model, ranks=world, unit="tokens/s",
                 lockstep=round(statistics.median(ours)), torch=round(statistics.median(theirs)),
                 torchVersion=version, ratio=round(statistics.median(ratios), 3),
                 ratios=[round(ratio, 3) for ratio in ratios], limit=1.0,
                 bf16=round(statistics.median(bf16)) if bf16 else None)


def allreduce_line():
    """(alpha in s, bytes/s) of two ranks here, now."""
    said = run_ranks([TRAINER, "bench", "allreduce", "--backend=gloo", "-b", "64K", "-e", "32M",
                      "-f", "4", "-n", "10", "--json"], 2)
    summary = json.loads(said.splitlines()[-1])
    return summary["alpha_us"] / 1e6, summary["bandwidth"] * 1e9


def exposed(arguments):
    for model in arguments.models:
        alone, hidden = [], []
        lines = [allreduce_line()]
        for _ in range(arguments.rounds):
            alone.append(Trained(model, 2, "--overlap=off"))
            hidden.append(Trained(model, 2))
            lines.append(allreduce_line())
        alpha, bandwidth = (statistics.median(values) for values in zip(*lines))
        size = parameters(alone[0].output) * 4
        buckets = 1 + -(-max(size - (1 << 20), 0) // (25 << 20))
        predicted = buckets * alpha + size / bandwidth
        measured = statistics.median(run.least("collective_wait_seconds") for run in alone)
        emit("train", "exposed", model=model, ranks=2, unit="s", bytes=size, buckets=buckets,
             predicted=round(predicted, 5), overlapOff=round(measured, 5),
             off=round(measured / predicted - 1, 3), limit=LIMIT_EXPOSED,
             overlapOn=round(statistics.median(
                 run.least("collective_wait_seconds") for run in hidden), 5),
             overlapOffRankZero=round(statistics.median(
                 run.median("collective_wait_seconds") for run in alone), 5))


def parameters(output):
    return int(re.search(r": (\d+) parameters", output)[1])


def scaling(arguments):
    for model in arguments.models:
        for overlap in ("on", "off"):
            rates = {1: [], 2: [], 4: []}
            for _ in range(arguments.rounds):
                for world, found in rates.items():
                    found.append(Trained(model, world, f"--overlap={overlap}").tokens_per_second)
            one = statistics.median(rates[1])
            for world, found in rates.items():
                rate = statistics.median(found)
                # More ranks than cores take turns: the best there is is what the cores can do.
                fair = min(world, os.cpu_count())
                emit("train", "scaling", model=model, overlap=overlap, ranks=world,
                     unit="tokens/s", rate=round(rate), efficiency=round(rate / one / world, 3),
                     efficiencyPerCore=round(rate / one / fair, 3))


def checkpoint(arguments):
    for model in arguments.models:
        runs = [Trained(model, 1, steps=29, checkpoint_every=8)
                for _ in range(arguments.rounds)]
        # The copy goes on beside the next step, whose optimizer may have to wait for it.
        stall = statistics.median(
            record["checkpoint_seconds"] + after["checkpoint_seconds"]
            for run in runs for record, after in zip(run.records, run.records[1:])
            if record["step"] % 8 == 0 and after["step"] < 32)
        whole = statistics.median(
            record["checkpoint_write_seconds"] for run in runs for record in run.records[-1:])
        emit("train", "checkpoint", model=model, unit="s", stall=round(stall, 5),
             duration=round(whole, 4), share=round(stall / whole, 4), limit=LIMIT_STALL)


def memory(arguments):
    for model, world in (("nano", 1), ("micro", 1), ("micro", 2)):
        run = Trained(model, world, steps=4)
        output, peak = run.output, run.peaks[0]
        predicted = int(re.search(r"^(\d+) MB of memory", output, re.M)[1])
        emit("train", "memory", model=model, ranks=world, unit="MB", predicted=predicted,
             peak=peak, limit=round(predicted * 1.2 + 64 * 1.048576))


def mesh(arguments):
    """Four ranks that share layers, and their shards, micro-batches of two sequences: with as many
    shards the same bits, which is looked at."""
    meshes = ((1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4))
    for model in arguments.models:
        layers, heads = MODELS[model][:2]
        most = heads & -heads  # the largest power of two that divides them
        runs = {(shards, stages, tensor): [] for shards in (1, most) for stages, tensor in meshes
                if layers % stages == 0 and shards % tensor == 0}
        for _ in range(arguments.rounds):
            for (shards, stages, tensor), found in runs.items():
                found.append(Trained(model, 4, f"--pipeline={stages}", f"--tensor={tensor}",
                                     f"--tensor-shards={shards}", micro=2))
        for (shards, stages, tensor), found in runs.items():
            same = {run.weights for cut, each in runs.items() if cut[0] == shards for run in each}
            emit("train", "mesh", model=model, data=4 // stages // tensor, pipeline=stages,
                 tensor=tensor, shards=shards, unit="tokens/s",
                 rate=round(statistics.median(run.tokens_per_second for run in found)),
                 peakMb=found[0].peaks, sameBits=len(same) == 1)


def telling(arguments):
    """What it costs to tell of a step, to the agent, in TensorBoard's files, in a line of JSON and in
    one of the log: what a run takes beside its steps, of a model whose steps are short."""
    def beside(steps):
        with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
            metrics = Path(folder, "metrics")
            began = time.monotonic()
            subprocess.run(
                [LOCKSTEP, "run", "-m", "1", "-p", "1", "--", TRAINER, "train", "--layers=1",
                 "--heads=1", "--width=32", "--vocabulary=256", f"--data={DATA}",
                 f"--metrics={metrics}", f"--tensorboard={folder}/events", f"--steps={steps}",
                 "--global-batch-size=1", "--sequence-length=16", "--log-every=1"],
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            took = time.monotonic() - began
            records = [json.loads(line) for line in metrics.read_text().splitlines()]
        return took - sum(record["step_seconds"] for record in records)

    few, many = 500, 4500
    costs = [(beside(many) - beside(few)) / (many - few) for _ in range(arguments.rounds)]
    cost = statistics.median(costs)
    for model in arguments.models:
        step = statistics.median(Trained(model, 1).seconds for _ in range(arguments.rounds))
        emit("train", "telling", model=model, unit="us", cost=round(cost * 1e6, 1),
             all=[round(each * 1e6, 1) for each in costs], step=round(step * 1e6),
             share=round(cost / step, 5), limit=LIMIT_TELLING)


FIGURES = {"speed": speed, "exposed": exposed, "scaling": scaling, "checkpoint": checkpoint,
           "memory": memory, "mesh": mesh, "telling": telling}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", nargs="+", choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--torch", type=Path, default=find_torch(), help="a Python that has torch")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-bf16", dest="bf16", action="store_false",
                        default="avx512_bf16" in Path("/proc/cpuinfo").read_text())
    arguments = parser.parse_args()
    for figure in arguments.figures:
        FIGURES[figure](arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
