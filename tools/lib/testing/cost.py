"""What a part of a run costs: seconds, CPU time, and how idle the cores were meanwhile."""

import dataclasses
import os
import pathlib
import resource
import time

CORES = os.cpu_count()
_ZERO = time.monotonic()


@dataclasses.dataclass
class Cost:
    name: str
    start: float  # seconds since this module was loaded, which a fork inherits
    seconds: float
    cpu: float  # CPU-seconds of the processes that this one has waited for, and of theirs
    idle: float  # the share of all cores that nothing used meanwhile, 0 to 1


class Meter:
    """Adds to `costs` the Cost of what runs in its `with` block."""

    def __init__(self, name, costs):
        self._name = name
        self._costs = costs

    def __enter__(self):
        self._before = _now()

    def __exit__(self, *_):
        (start, cpu, idle), (end, cpu_then, idle_then) = self._before, _now()
        seconds = end - start
        share = min(1.0, max(0.0, (idle_then - idle) / (seconds * CORES))) if seconds > 0.5 else 0.0
        self._costs.append(Cost(self._name, start - _ZERO, seconds, cpu_then - cpu, share))


def _now():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    times = pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    idle = (int(times[3]) + int(times[4])) / os.sysconf("SC_CLK_TCK")  # iowait is idle, too
    return time.monotonic(), children.ru_utime + children.ru_stime, idle


def table(costs):
    """A line for each Cost, in the order of their starts; those that took no time are left out."""
    shown = [each for each in costs if each.seconds >= 0.5 or each is costs[0]]
    lines = ["  from   seconds  CPU-seconds  cores idle"]
    for each in sorted(shown, key=lambda each: (each.start, -each.seconds)):
        lines.append(f"{each.start:6.0f}  {each.seconds:8.1f}  {each.cpu:11.1f}  {each.idle:9.0%}   {each.name}")
    return lines
