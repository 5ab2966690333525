#!/usr/bin/env python3
"""`lockstep run`: from the moment the command is given to the first act of the last rank.

The floor is `lockstep-bench floor start`: as many processes started by one plain process a machine.
"""

import argparse
import sys

from _bench import RANK, Shape, TimedRun, emit, floor, lockstep, quantile, spread

LIMITS = {"2x2": 100, "64x8": 1500}


def measure(shape, samples):
    bare = floor("start", shape, samples)[0]
    # Ranks outlive the slowest start: one that ends early would free its core for the others.
    program = [RANK, "none", 0, 0, 300 + 10 * shape.world]
    whole, parts = [], []
    for _ in range(samples):
        run = TimedRun(lockstep(shape, program))
        starts = run.times("start", 0)
        if run.code != 0 or len(starts) != shape.world:
            run.complain(f"{len(starts)} of {shape.world} ranks started")
            sys.exit(1)
        whole.append((max(starts) - run.began) / 1e6)
        parts.append((min(starts) - run.began) / 1e6)
    ours = spread(whole)
    emit(
        "start",
        "lockstep",
        shape=str(shape),
        processes=shape.world,
        unit="ms",
        **ours,
        limit=LIMITS.get(str(shape)),
        firstRank=round(quantile(parts, 0.5), 1),
        floor=bare["p50"],
        ratioToFloor=round(ours["p50"] / bare["p50"], 2),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", default="2x2:20,64x8:5", help="SHAPE:SAMPLES,...")
    for item in parser.parse_args().samples.split(","):
        shape, samples = item.split(":")
        measure(Shape.parse(shape), int(samples))


if __name__ == "__main__":
    main()
