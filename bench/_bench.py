"""What the benchmarks in Python share: running jobs, reading their ranks' stamps, printing figures.

Ranks append lines "EVENT RANK RESTARTED NS" to the file that BENCH_TIMES names, NS being
CLOCK_BOOTTIME and RESTARTED 1 after a death: figures come from what the processes themselves saw,
not from what Lockstep says.
"""

import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/lib", "tools/lib/cluster")]

BIN = Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/release/bin"))
LOCKSTEP = BIN / "lockstep"
AGENT = BIN / "lockstep-agent"
BENCH = BIN / "lockstep-bench"
RANK = BIN / "lockstep-bench-rank"
MPI_RANK = BIN / "lockstep-bench-mpi-rank"

Stamp = namedtuple("Stamp", "event rank restarted ns")


class Shape(namedtuple("Shape", "machines processes")):
    """`2x2`: machines by processes on each."""

    @classmethod
    def parse(cls, text):
        return cls(*map(int, text.split("x")))

    @property
    def world(self):
        return self.machines * self.processes

    def __str__(self):
        return f"{self.machines}x{self.processes}"


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _machine():
    cpu = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(": ", 1)[1]
            break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "cpu": cpu,
        "kernel": platform.release(),
        "memoryGiB": round(memory / 2**30),
        "load": os.getloadavg()[0],
    }


def emit(benchmark, figure, **values):
    """Prints one figure as one line of JSON."""
    line = {"benchmark": benchmark, "figure": figure, **values, "machine": _machine()}
    print(json.dumps(line), flush=True)


def quantile(samples, share):
    ordered = sorted(samples)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def spread(samples):
    return {
        "p50": round(quantile(samples, 0.5), 3),
        "p99": round(quantile(samples, 0.99), 3),
        "max": round(max(samples), 3),
        "samples": len(samples),
    }


def floor(figure, shape, samples):
    """The same with nothing but exec, pidfds and sockets, measured now; printed, and returned."""
    command = [BENCH, "floor", figure, str(shape), str(samples)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(output, end="", flush=True)
    return [json.loads(line) for line in output.splitlines()]


class TimedRun:
    """One run of a command whose ranks write stamps; it is over when this is made.

    With `due`, the last rank dies once due(run) holds, which is asked 20 times a second; the
    program looks for the file BENCH_DIE. Without, that is there from the beginning.
    """

    def __init__(self, make_command, env=None, timeout=120, due=None):
        with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
            times = Path(folder) / "times"
            report = Path(folder) / "report.json"
            log = Path(folder) / "log"
            die = Path(folder) / "die"
            self.times_file, self._log_file = times, log
            if due is None:
                die.touch()
            with log.open("w") as output:
                self.began = now()
                job = subprocess.Popen(
                    [str(word) for word in make_command(report)],
                    env={
                        **os.environ,
                        "BENCH_TIMES": str(times),
                        "BENCH_DIE": str(die),
                        **(env or {}),
                    },
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
                self.pid = job.pid
                try:
                    while due and job.poll() is None and self.began + timeout * 1e9 > now():
                        self._look()
                        if due(self):
                            die.touch()
                            break
                        time.sleep(0.05)
                    self.code = job.wait(max(timeout - (now() - self.began) / 1e9, 0))
                except subprocess.TimeoutExpired:
                    os.killpg(job.pid, signal.SIGKILL)
                    self.code = job.wait()
                except BaseException:  # Ctrl-C; its first generation would wait for ever
                    os.killpg(job.pid, signal.SIGKILL)
                    raise
            self._look()
            self.report = json.loads(report.read_text()) if report.exists() else {}

    def _look(self):
        self.log = self._log_file.read_text()
        lines = self.times_file.read_text().splitlines() if self.times_file.exists() else []
        self.stamps = [
            Stamp(event, int(rank), int(restarted), int(ns))
            for event, rank, restarted, ns in map(str.split, lines)
        ]

    def times(self, event, restarted):
        return [s.ns for s in self.stamps if (s.event, s.restarted) == (event, restarted)]

    def complain(self, what):
        print(f"{what} (exit code {self.code}):\n{self.log[-2000:]}", file=sys.stderr)


def lockstep(shape, program, *options):
    """The command line of `lockstep run`, for TimedRun."""
    size = ["-m", shape.machines, "-p", shape.processes, "--no-table"]
    plain = [] if "--prestart" in options else ["--prestart", "Never"]
    return lambda report: [
        LOCKSTEP, "run", *size, *plain, "--report", report, *options, "--", *program]
