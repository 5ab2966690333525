"""Runs of live_program.py, with and without deaths."""

import collections
import json
import re

from paths import ROOT
from run import Run

Result = collections.namedtuple("Result", "steps tries recovered folders leaked sum")
_RESULT = re.compile(r"RESULT (\d+) steps (\d+) tries (\d+) recovered (\d+) folders (\d+) leaked (\d+) "
                     r"generation \S+ sum (\w+)")


def start(folder, python, plan=None, machines=2, processes=2, restarts=50, arguments=(), **variables):
    folder.mkdir()
    values = {"PLAN": json.dumps(plan or {}), "FOLDER": str(folder), "OMP_NUM_THREADS": "1", **variables}
    environment = [word for name, value in values.items() for word in ("--env", f"{name}={value}")]
    return Run(folder, "-m", str(machines), "-p", str(processes), "--no-table", "--max-restarts", str(restarts),
               *environment, *arguments, "--", python, str(ROOT / "tests/lib/live_program.py"))


def finish(run, patience=200):
    """({rank: Result}, report, output)"""
    code, report, output = run.finish(patience)
    assert code == 0, output
    return results(output), report, output


def results(output):
    return {int(rank): Result(*map(int, numbers), summed)
            for rank, *numbers, summed in _RESULT.findall(output)}


def sums(found):
    return {rank: result.sum for rank, result in found.items()}


def kept(report):
    """How many processes each generation took over from the one before."""
    return [generation.get("kept", 0) for generation in report["generations"]]
