#!/usr/bin/env python3
"""Whether `lockstep bench numa` measures what STREAM measures.

bench/stream.c, STREAM's kernels by its published rules, is compiled here by the compiler and
with the flags that cli/numa is compiled with; it and Lockstep's local setting take turns with the same
arrays and CPUs. `ratio` is of the best figures of each, as STREAM reports its best.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

from _bench import LOCKSTEP, emit

FLAGS = ["-O3", "-fno-builtin"]  # of cli/numa/CMakeLists.txt
KERNELS = ("copy", "scale", "add", "triad")
RUNS = 3  # of Lockstep a round: 9 passes that count, as many as one run of STREAM has
LIMIT = 0.03


def lockstep(mib):
    """The local setting of the first node: its figures, and the CPUs it ran on."""
    out = subprocess.run(
        [LOCKSTEP, "bench", "numa", "--only", "local", "--repetitions", str(RUNS), "--json", "-",
         *(["--array-size", str(mib)] if mib else [])], capture_output=True, text=True, check=True)
    report = json.loads(out.stdout)
    setting = report["settings"][0]
    return setting["bytes"], setting["cpus"], report["followsStreamRule"], {
        kernel: setting["bytesPerSecond"][kernel]["most"] for kernel in KERNELS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--array-size", type=int, metavar="MIB", help="default: what lockstep takes")
    parser.add_argument("--compiler", default="clang-19")
    options = parser.parse_args()
    ours, stream = {kernel: [] for kernel in KERNELS}, {kernel: [] for kernel in KERNELS}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "stream"
        subprocess.run([options.compiler, *FLAGS, "-pthread", "-o", program,
                        Path(__file__).with_name("stream.c"), "-lm"], check=True)
        for _ in range(options.rounds):
            size, cpus, follows, figures = lockstep(options.array_size)
            out = subprocess.run([program, str(size), *map(str, cpus)], capture_output=True,
                                 text=True, check=True)
            for kernel, figure in zip(KERNELS, map(float, out.stdout.split())):
                ours[kernel].append(figures[kernel])
                stream[kernel].append(figure)
    for kernel in KERNELS:
        pairs = [mine / theirs for mine, theirs in zip(ours[kernel], stream[kernel])]
        emit("numa", kernel, unit="MB/s", lockstep=round(max(ours[kernel]) / 1e6),
             stream=round(max(stream[kernel]) / 1e6),
             ratio=round(max(ours[kernel]) / max(stream[kernel]), 4),
             ratioOfPairs=round(statistics.median(pairs), 4), limit=f"1 +- {LIMIT}",
             rounds=options.rounds, arrayBytes=size, threads=len(cpus), followsStreamRule=follows)


if __name__ == "__main__":
    main()
