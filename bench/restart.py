#!/usr/bin/env python3
"""A rank dies: how long until every rank of the gang lives again.

From the last act of the dying process to the first act of the last new one, each on its own
CLOCK_BOOTTIME stamp, so the kernel's share is in it. Beside it, in parts, what Lockstep itself
reports; the floor (`lockstep-bench floor`); and torchrun with c10d, when LOCKSTEP_BENCH_TORCHRUN
names a Python that has it. Then real training programs to their first new step, each plain and
with parked interpreters, and what these cost (_programs.py); and the built-in trainer, which can keep
the other ranks' processes (_recovery.py), as a PyTorch program can (_live.py).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import _compare
import _live
import _programs as programs
import _recovery
from _bench import LOCKSTEP, MPI_RANK, RANK, Shape, emit, floor, lockstep, quantile, spread
from ports import free_port

LIMITS = {"2x2": {"p50": 15, "p99": 30}, "8x4": {"p50": 40, "p99": 60}}
ROWS = ("small", "frameworks", "mpi", "recovery", "torch", "compare", "ddp1", "ddp2", "trainer", "accelerate",
        "slower", "refill", "parked", "compiled")
FRAMEWORKS = ("None", "Torch", "Accelerate", "Jax", "TensorFlow", "Horovod")
MPI = {  # what the job says, by what the figure is called
    "None": {"framework": "None"},
    "Pmi": {"framework": "Mpi", "mpi": {"start": "Pmi"}},
    "Pmix": {"framework": "Mpi", "mpi": {"start": "Pmix"}},
}
PARTS = ("detect", "stop", "wait", "spawn")


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
        runs, bad = programs.sample(lockstep(shape, program), shape.world, samples)
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


def frameworks(shape, samples):
    """The small process under each of them: what its variables and ports cost a restart."""
    program = [RANK, "kill", shape.world - 1, 200, 100]
    plain = None
    for name in FRAMEWORKS:
        command = lockstep(shape, program, "--framework", name)
        runs, bad = programs.sample(command, shape.world, samples)
        ours = spread([ms for ms, _ in runs])
        plain = plain or ours
        emit(
            "restart",
            "framework",
            framework=name,
            shape=str(shape),
            death="kill",
            unit="ms",
            **ours,
            reported=reported(runs),
            ratioToNone=round(ours["p50"] / plain["p50"], 2),
            leftOut=bad,
        )


def mpi(shape, samples):
    """A process that has met the others as MPI's library does before it dies, and does so again. It
    lives for a second, in which the next generation's services are prepared. They take turns, sample
    by sample."""
    program = [str(MPI_RANK), "kill", str(shape.world - 1), "1000", "100"]
    runs, bad = {name: [] for name in MPI}, {name: 0 for name in MPI}
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        commands = {}
        for name, spec in MPI.items():
            job = Path(folder, f"{name}.json")
            job.write_text(json.dumps({
                "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
                "metadata": {"name": f"bench-{name.lower()}"},
                "spec": {"image": "none", "numMachines": shape.machines, "command": program,
                         "processesPerMachine": shape.processes, "prestart": "Never", **spec}}))
            commands[name] = lambda report, job=job: [
                LOCKSTEP, "run", "--no-table", "--report", report, job]
        for _ in range(samples):
            for name, command in commands.items():
                more, left_out = programs.sample(command, shape.world, 1)
                runs[name] += more
                bad[name] += left_out
    plain = quantile([ms for ms, _ in runs["None"]], 0.5)
    for name in MPI:
        ours = spread([ms for ms, _ in runs[name]])
        emit("restart", "mpi", start=name, shape=str(shape), death="kill", unit="ms", **ours,
             reported=reported(runs[name]), ratioToNone=round(ours["p50"] / plain, 2),
             leftOut=bad[name])


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
            runs, bad = programs.sample(torchrun(python, shape, program), shape.world, samples)
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


def torchrun_programs(row, program, samples, shape):
    if not torchrun_works(program.python):
        return
    command = torchrun(program.python, shape, program.words)
    env = {"OMP_NUM_THREADS": "1"}
    runs, bad = programs.sample(command, shape.world, samples, env=env, timeout=240)
    programs.emit_steps(row, program, "torchrun", [run for _, run in runs], shape, bad)


def program_rows(row, program, options, shape):
    if options.program_samples > 0:
        programs.first_steps(row, program, "plain", options.program_samples, shape)
    if row.startswith("ddp") and options.torchrun_samples > 0:
        torchrun_programs(row, program, options.torchrun_samples, shape)
    many = options.ddp_samples if row == "ddp1" else options.prestart_samples
    if many > 0:
        programs.first_steps(row, program, "warm", many, shape)


def real_programs(options):
    """The rows asked for, in their order."""
    shape = Shape.parse(options.program_shape)
    found = programs.all_programs(options.python, options.torch)
    for row in options.rows:
        if row in found:
            program_rows(row, found[row], options, shape)
        elif row == "slower" and "ddp1" in found:
            programs.never_slower(found["ddp1"], options.slower_samples, shape)
        elif row == "refill" and "ddp1" in found:
            programs.refill(found["ddp1"])
        elif row == "parked" and "trainer" in found:
            programs.parked(found["trainer"], options.parked_seconds)
        elif row == "compiled" and "ddp2" in found:
            programs.compiled(options.torch, options.program_samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="2x2,8x4")
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--torchrun-samples", type=int, default=5)
    # Of compare, a launcher that does not come back costs two minutes a sample.
    default = ",".join(row for row in ROWS if row != "compare")
    parser.add_argument("--rows", default=default, type=lambda text: text.split(","),
                        help=f"some of {','.join(ROWS)} (all but compare)")
    parser.add_argument("--program-shape", default="2x2")
    parser.add_argument("--program-samples", type=int, default=3, help="of each, plain")
    parser.add_argument("--ddp-samples", type=int, default=20, help="of torch 1.13's DDP with parked interpreters")
    parser.add_argument("--prestart-samples", type=int, default=5, help="of others with parked interpreters")
    parser.add_argument("--slower-samples", type=int, default=5, help="of each of row slower")
    parser.add_argument("--recovery-samples", type=int, default=10, help="of each of row recovery")
    parser.add_argument("--kills", type=int, default=50, help="of row torch, in one job")
    parser.add_argument("--compare-samples", type=int, default=10, help="of each launcher of row compare")
    parser.add_argument("--modes", default=",".join(_compare.MODES), type=lambda text: text.split(","),
                        help=f"of row compare: some of {','.join(_compare.MODES)} (all)")
    parser.add_argument("--torchft", type=Path, default=_compare.TORCHFT, help="a Python with torchft")
    parser.add_argument("--slow", type=float, default=500, help="ms over which a kill has a line of its own")
    parser.add_argument("--parked-seconds", type=float, default=60)
    parser.add_argument("--python", default=programs.DEBIAN, help="one with torch 1.13")
    parser.add_argument("--torch", default=programs.TORCH_2 / "bin/python",
                        help="one with torch 2, transformers and accelerate")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and with it the run under way
    shapes = [Shape.parse(text) for text in options.shapes.split(",")]
    if "small" in options.rows:
        for shape in shapes:
            small_processes(shape, options.samples)
        if os.environ.get("LOCKSTEP_BENCH_TORCHRUN"):
            torchruns(os.environ["LOCKSTEP_BENCH_TORCHRUN"], shapes, options.torchrun_samples)
    if "frameworks" in options.rows:
        for shape in shapes:
            frameworks(shape, options.samples)
    if "mpi" in options.rows:
        for shape in shapes:
            mpi(shape, options.samples)
    if "recovery" in options.rows:
        _recovery.recoveries(options.recovery_samples, Shape.parse(options.program_shape))
    if "torch" in options.rows and programs.versions(options.torch, "torch"):
        _live.torch_rows(options.torch, Shape.parse(options.program_shape), options.kills,
                         options.prestart_samples, options.slow)
    if "compare" in options.rows and programs.versions(options.torch, "torch"):
        _compare.compare(options, Shape.parse(options.program_shape))
    real_programs(options)


if __name__ == "__main__":
    main()
