"""Training programs that lose a rank, to the first new step of the last one.

Each program is unmodified but for stamps (programs/stamps.py). `plain` starts Python anew; `warm`
goes on with interpreters that were parked (docs/guides/prestart.md). Then what these cost: whether a
restart with nothing parked is any slower than plain, what a running gang loses while
they import, what one holds while it waits, and what the caches of compilers save.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from _bench import Shape, TimedRun, emit, lockstep, now, quantile, spread

PROGRAMS = Path(__file__).with_name("programs")
DEBIAN = "/usr/bin/python3"
# Made as docs/internals/benchmarks.md says.
TORCH_2 = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "lockstep/torch-venv")
MODES = ("plain", "warm")
MARKS = ("start", "imported", "joined", "step")
READY = "parked interpreters are ready"


def versions(python, *modules):
    """Such as "torch 2.15.0, transformers 5.23.0"; None if it has not all of them."""
    ask = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
    try:
        done = subprocess.run(
            [python, "-c", ask, *modules], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    if done.returncode != 0:
        return None
    return ", ".join(f"{m} {v}" for m, v in zip(modules, done.stdout.split()))


class Program:
    """One of programs/, run by one Python."""

    def __init__(self, name, file, python, versions_of):
        self.name = name
        self.words = [python, PROGRAMS / file]
        self.python = python
        self.versions = versions_of


def all_programs(debian, torch_2):
    """By the name of their row; those that this computer has."""
    found = {
        "ddp1": Program("DDP", "ddp.py", debian, versions(debian, "torch")),
        "ddp2": Program("DDP", "ddp.py", torch_2, versions(torch_2, "torch")),
        "trainer": Program(
            "HF Trainer", "trainer.py", torch_2, versions(torch_2, "torch", "transformers")
        ),
        "accelerate": Program(
            "Accelerate", "accelerated.py", torch_2, versions(torch_2, "torch", "accelerate")
        ),
    }
    for row in [row for row, program in found.items() if not program.versions]:
        emit("restart", "firstStep", row=row, skipped=f"{found.pop(row).python} has it not")
    return found


def waiting(run):
    """Processes of a run in its first generation that were started to wait, ready or not."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        parked = any(entry.startswith(b"LOCKSTEP_PRESTART=park") for entry in environment)
        if parked and f"BENCH_TIMES={run.times_file}".encode() in environment:
            yield int(folder.name)


def all_ready(machines):
    return lambda run: run.log.count(READY) >= machines


def half_ready(machines):
    """Once each machine's first interpreter has imported for half as long as a start took: of the ranks'
    imports, which share cores, a quarter."""
    seen = []

    def due(run):
        if not seen and len(list(waiting(run))) >= machines:
            seen.append(now())
        if not seen:
            return False
        took = max(run.times("imported", 0)) - min(run.times("start", 0))
        return now() - seen[0] >= took / 4

    return due


def restart_ms(run, world):
    """From the death to the last of all ranks alive again; None when that isn't what happened."""
    first, death, again = run.times("start", 0), run.times("death", 0), run.times("start", 1)
    whole = len(first) == world and len(death) == 1 and len(again) == world
    if not whole or max(first) > death[0]:
        return None
    return (max(again) - death[0]) / 1e6


def sample(make_command, world, samples, good=lambda run: True, **run_options):
    """`samples` good runs; one that goes otherwise is shown and made up for, up to a tenth."""
    runs, bad = [], 0
    while len(runs) < samples:
        run = TimedRun(make_command, **run_options)
        ms = restart_ms(run, world)
        if ms is not None and run.code == 0 and good(run):
            runs.append((ms, run))
            continue
        run.complain("a run without its restart is left out")
        bad += 1
        if bad > max(samples // 10, 1):
            sys.exit("too many runs went wrong")
    return runs, bad


def first_step_ms(run):
    return (max(run.times("step", 1)) - run.times("death", 0)[0]) / 1e6


def one_sample(program, mode, shape, env=None):
    """A run of one of these modes that went as it should, and how many did not."""
    machines = shape.machines
    options, more, due, warm = {
        "plain": ([], {}, None, 0),
        "warm": (["--prestart", "Auto", "-v"], {}, all_ready(machines), machines),
        # Nothing is reported, so nothing is parked.
        "none": (["--prestart", "Auto", "-v"], {"BENCH_SILENT": "600"}, None, 0),
        "half": (["--prestart", "Auto", "-v"], {}, half_ready(machines), 0),
    }[mode]
    runs, bad = sample(
        lockstep(shape, program.words, *options),
        shape.world,
        1,
        good=lambda run: run.log.count("started from parked interpreters") == warm,
        env={"OMP_NUM_THREADS": "1", **more, **(env or {})},
        timeout=600,
        due=due,
    )
    return runs[0][1], bad


def rounds(program, modes, shape, samples):
    """The runs of each mode; modes take turns, so that they have the same neighbours."""
    runs, left_out = {mode: [] for mode in modes}, 0
    for _ in range(samples):
        for mode in modes:
            run, bad = one_sample(program, mode, shape)
            runs[mode].append(run)
            left_out += bad
    return runs, left_out


def parts(runs):
    """Medians of what lies between the marks of the last rank to come to each."""
    marks = [[run.times("death", 0)[0], *(max(run.times(mark, 1)) for mark in MARKS)]
             for run in runs]
    names = ("toStart", "toImported", "toJoined", "toStep")
    return {
        name: round(quantile([(m[i + 1] - m[i]) / 1e6 for m in marks], 0.5), 1)
        for i, name in enumerate(names)
    }


def first_steps(row, program, mode, samples, shape):
    """Death to the first new step of the last rank."""
    runs, left_out = rounds(program, [mode], shape, samples)
    emit_steps(row, program, mode, runs[mode], shape, left_out)


def emit_steps(row, program, mode, runs, shape, left_out, **more):
    stepped = [first_step_ms(run) for run in runs]
    emit(
        "restart",
        "firstStep",
        row=row,
        program=program.name,
        versions=program.versions,
        shape=str(shape),
        mode=mode,
        unit="ms",
        **spread(stepped),
        p95=round(quantile(stepped, 0.95), 1),
        **parts(runs),
        leftOut=left_out,
        **more,
    )


def never_slower(program, samples, shape):
    """A restart with nothing parked, or half-ready interpreters, beside plain ones in turns."""
    runs, left_out = rounds(program, ["plain", "none", "half"], shape, samples)
    plain = quantile([first_step_ms(run) for run in runs["plain"]], 0.5)
    for mode, of_mode in runs.items():
        ratio = quantile([first_step_ms(run) for run in of_mode], 0.5) / plain
        emit_steps("slower", program, mode, of_mode, shape, left_out,
                   ratioToPlain=round(ratio, 3), limit=1.05)


def refill(program):
    """Steps a second of ranks that have a core each to themselves, while interpreters load beside."""
    shape, at = Shape(2, 1), {}

    def due(run):
        time.sleep(0.2)  # looking costs the ranks time too
        if "seen" not in at:
            if any(waiting(run)):
                at["seen"] = now()
        elif "ready" not in at:
            if run.log.count(READY) >= shape.machines:
                at["ready"] = now()
        return "ready" in at and now() - at["ready"] > 4e9

    env = {"OMP_NUM_THREADS": "1", "BENCH_SILENT": "5", "BENCH_PAUSE": "0", "BENCH_TICKS": "1"}
    command = lockstep(shape, program.words, "--prestart", "Auto", "-v")
    (_, run), *_ = sample(command, shape.world, 1, env=env, timeout=240, due=due)[0]
    ticks = run.times("tick", 0)

    def rate(begin, end):
        inside = [tick for tick in ticks if begin <= tick <= end]
        return (len(inside) - 1) * 10 / ((inside[-1] - inside[0]) / 1e9)

    before = rate(ticks[0] + 1e9, at["seen"] - 0.2e9)
    during = rate(at["seen"], at["ready"])
    emit(
        "restart",
        "refill",
        row="refill",
        program=program.name,
        versions=program.versions,
        shape=str(shape),
        unit="steps/s",
        before=round(before, 1),
        during=round(during, 1),
        after=round(rate(at["ready"] + 1e9, at["ready"] + 4e9), 1),
        seconds=round((at["ready"] - at["seen"]) / 1e9, 1),
        ratio=round(during / before, 3),
        limit=0.75,
    )


def _switches(pid):
    """Voluntary and forced switches of all threads, and clock ticks of CPU."""
    counted = {"voluntary_ctxt_switches": 0, "nonvoluntary_ctxt_switches": 0}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in counted:
                counted[name] += int(value)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [*counted.values(), int(fields[11]) + int(fields[12])]


def parked(program, seconds):
    """What a ready interpreter holds, and how often it woke up."""
    shape, found = Shape(1, 1), {}

    def due(run):
        if run.log.count(READY) < 1:
            return False
        (pid,) = waiting(run)
        time.sleep(1)
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        held = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in rollup}
        before = _switches(pid)
        time.sleep(seconds)
        voluntary, forced, ticks = (b - a for a, b in zip(before, _switches(pid)))
        found.update(
            p50=round(held["Rss"], 1),
            proportional=round(held["Pss"], 1),
            privateDirty=round(held["Private_Dirty"], 1),
            voluntarySwitches=voluntary,
            forcedSwitches=forced,
            cpuTicks=ticks,
        )
        return True

    command = lockstep(shape, program.words, "--prestart", "Auto", "-v")
    sample(command, 1, 1, env={"OMP_NUM_THREADS": "1"}, timeout=240 + seconds, due=due)
    emit("restart", "parked", row="parked", program=program.name, versions=program.versions,
         unit="MiB", **found, seconds=seconds, limit=550)


def compiled(python, samples):
    """The first step of what torch.compile makes, with the cache that outlives the generation and
    without any."""
    program = Program("torch.compile", "compiled.py", python, versions(python, "torch"))
    shape = Shape(1, 1)
    for mode, env in (
        ("plain", {}),
        ("warm", {}),
        ("plain", {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}),
    ):
        runs = [one_sample(program, mode, shape, env)[0] for _ in range(samples)]
        first = [(max(run.times("step", 0)) - max(run.times("joined", 0))) / 1e6 for run in runs]
        emit_steps("compiled", program, mode, runs, shape, 0, cache="none" if env else "kept",
                   firstEver=round(quantile(first, 0.5), 1))
