#!/usr/bin/env python3
"""A rank dies: how long until every rank of the gang lives again.

From the last act of the dying process to the first act of the last new one, each on its own
CLOCK_BOOTTIME stamp, so the kernel's share is in it. Beside it, in parts, what Lockstep itself
reports; the floor (`lockstep-bench floor`); and torchrun with c10d, when LOCKSTEP_BENCH_TORCHRUN
names a Python that has it. Then a real PyTorch DistributedDataParallel script, to its first new
step: that part is the user's, and the reason why the rest is kept small.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _bench import RANK, Run, Shape, emit, floor, lockstep, quantile, spread
from ports import free_port

LIMITS = {"2x2": {"p50": 15, "p99": 30}, "8x4": {"p50": 40, "p99": 60}}
DDP = Path(__file__).with_name("_ddp.py")
PARTS = ("detect", "stop", "wait", "spawn")


def restart_ms(run, world):
    """From the death to the last of all ranks alive again; None when that isn't what happened."""
    first, death, again = run.times("start", 0), run.times("death", 0), run.times("start", 1)
    whole = len(first) == world and len(death) == 1 and len(again) == world
    if not whole or max(first) > death[0]:
        return None
    return (max(again) - death[0]) / 1e6


def sample(make_command, world, samples, **run_options):
    """`samples` good runs; one that goes otherwise is shown and made up for, up to a tenth."""
    runs, bad = [], 0
    while len(runs) < samples:
        run = Run(make_command, **run_options)
        ms = restart_ms(run, world)
        if ms is not None and run.code == 0:
            runs.append((ms, run))
            continue
        run.complain("a run without its restart is left out")
        bad += 1
        if bad > max(samples // 10, 1):
            sys.exit("too many runs went wrong")
    return runs, bad


def reported(runs):
    """What Lockstep says of the same restarts: the medians of its parts, and the slowest's own."""
    respawns = [run.report["generations"][0]["respawn"] for _, run in runs]
    slowest = max(respawns, key=lambda respawn: respawn["seconds"])
    return {
        **{p: round(quantile([r[p] * 1e3 for r in respawns], 0.5), 3) for p in PARTS},
        "whole": spread([r["seconds"] * 1e3 for r in respawns]),
        "slowest": {p: round(slowest[p] * 1e3, 3) for p in PARTS},
    }


def small_processes(shape, samples):
    floors = {line["death"]: line for line in floor("restart", shape, samples)}
    for death in ("exit", "kill"):
        program = [RANK, death, shape.world - 1, 200, 100]
        runs, bad = sample(lockstep(shape, program), shape.world, samples)
        ours = spread([ms for ms, _ in runs])
        emit(
            "restart",
            "lockstep",
            shape=str(shape),
            death=death,
            unit="ms",
            **ours,
            limit=LIMITS.get(str(shape)),
            reported=reported(runs),
            floor=floors[death]["p50"],
            ratioToFloor=round(ours["p50"] / floors[death]["p50"], 2),
            leftOut=bad,
        )


def elastic(python, *options):
    """The words of torchrun. `-r 1 -t 1`: its default 0 fails under Python 3.11 with old torch."""
    run = [python, "-m", "torch.distributed.run", "--no_python", "-r", "1", "-t", "1"]
    return [*run, "--log_dir", tempfile.gettempdir() + "/lockstep-bench-torchrun", *options]


def torchrun(python, shape, program):
    """A shell that starts one torchrun a machine, as a script on a cluster's nodes would."""

    def command(_):
        size = [f"--nnodes={shape.machines}", f"--nproc_per_node={shape.processes}"]
        meet = ["--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{free_port()}"]
        # What torchrun 2 has by default; 1.13 looks every 5 s only.
        meet += ["--rdzv_id=bench", "--monitor_interval=0.1"]
        words = elastic(python, *size, *meet, "--max_restarts=3", *program)
        one = " ".join(str(word) for word in words)
        return ["sh", "-c", f"{one} & " * shape.machines + "wait"]

    return command


def torchrun_works(python):
    done = subprocess.run(
        elastic(python, "--nproc_per_node=1", "true"), capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return True
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    emit("restart", "torchrun", python=python, skipped=f"its torchrun does not run: {reason}")
    return False


def torchruns(python, shapes, samples):
    if not torchrun_works(python):
        return
    version = "import torch; print(torch.__version__)"
    torch = subprocess.run([python, "-c", version], capture_output=True, text=True, check=True)
    for shape in shapes:
        for death in ("exit", "kill"):
            program = [RANK, death, shape.world - 1, 500, 100]
            runs, bad = sample(torchrun(python, shape, program), shape.world, samples)
            emit(
                "restart",
                "torchrun",
                shape=str(shape),
                death=death,
                unit="ms",
                **spread([ms for ms, _ in runs]),
                torch=torch.stdout.strip(),
                rendezvous="c10d",
                leftOut=bad,
            )


def real_program(python, samples, lives=0):
    """To the first new step of a DDP script; what is Lockstep's of it, and what the user's. With
    `lives`, interpreters are parked, for which the first generation lives so many seconds."""
    shape = Shape(2, 2)
    command = lockstep(shape, [python, DDP], *(["--prestart"] if lives else []))
    runs, bad = sample(command, shape.world, samples,
                       env={"OMP_NUM_THREADS": "1", "BENCH_LIVES": str(lives)})
    ours, imported, joined, stepped = [], [], [], []
    for ms, run in runs:
        death = run.times("death", 0)[0]
        marks = [max(run.times(event, 1)) for event in ("start", "imported", "joined", "step")]
        ours.append(ms)
        imported.append((marks[1] - marks[0]) / 1e6)
        joined.append((marks[2] - marks[1]) / 1e6)
        stepped.append((marks[3] - death) / 1e6)
    emit(
        "restart",
        "firstStep",
        shape=str(shape),
        program="PyTorch DistributedDataParallel, Gloo",
        prestart="Auto" if lives else "Never",
        unit="ms",
        **spread(stepped),
        p95=round(quantile(stepped, 0.95), 1),
        lockstepAndPythonStart=round(quantile(ours, 0.5), 1),
        importTorch=round(quantile(imported, 0.5), 1),
        initProcessGroup=round(quantile(joined, 0.5), 1),
        reported=reported(runs),
        leftOut=bad,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="2x2,8x4")
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--torchrun-samples", type=int, default=5)
    parser.add_argument("--program-samples", type=int, default=5)
    parser.add_argument("--prestart-samples", type=int, default=5)
    parser.add_argument("--prestart-lives", type=float, default=15, metavar="SECONDS",
                        help="of the first generation, in which spares import (15)")
    parser.add_argument("--python", default="/usr/bin/python3", help="one with torch")
    options = parser.parse_args()
    shapes = [Shape.parse(text) for text in options.shapes.split(",")]
    for shape in shapes:
        small_processes(shape, options.samples)
    if os.environ.get("LOCKSTEP_BENCH_TORCHRUN"):
        torchruns(os.environ["LOCKSTEP_BENCH_TORCHRUN"], shapes, options.torchrun_samples)
    if options.program_samples > 0:
        real_program(options.python, options.program_samples)
    if options.prestart_samples > 0:
        real_program(options.python, options.prestart_samples, options.prestart_lives)


if __name__ == "__main__":
    main()
