"""Lines of `restart`'s programs as the Markdown of docs/internals/benchmarks.md:

tools/bench restart -- --rows ddp1,refill | python3 bench/_table.py
"""

import json
import sys


def ms(value):
    return f"{value:,.0f} ms"


def first_step(line):
    mode = {
        "warm": "interpreters parked",
        "none": "`prestart`, nothing parked",
        "half": "`prestart`, half-ready",
    }.get(line["mode"], line["mode"])
    if "cache" in line:
        mode += f", compile cache {line['cache']}"
    beside = f"start {ms(line['toStart'])}, imports {ms(line['toImported'])}, "
    beside += f"joining {ms(line['toJoined'])}, step {ms(line['toStep'])}"
    if "ratioToPlain" in line:
        beside += f"; {line['ratioToPlain']} × plain (limit {line['limit']})"
    if "firstEver" in line:
        beside += f"; the first step ever {ms(line['firstEver'])}"
    name = f"{line['program']} ({line['versions']}), {line['shape'].replace('x', ' × ')}"
    return [name, mode, ms(line["p50"]), f"{ms(line['p95'])} of {line['samples']}", beside]


def refill(line):
    return [
        f"{line['program']} ({line['versions']}), a core a rank, saturated",
        f"interpreters load for {line['seconds']} s",
        f"{line['ratio']:.2f} × before (limit {line['limit']})",
        "1 run",
        f"{line['before']}, {line['during']}, {line['after']} steps/s before, while, after",
    ]


def parked(line):
    return [
        f"a parked interpreter, {line['program']} ({line['versions']})",
        "waits",
        f"{line['privateDirty']} MiB its own (limit {line['limit']})",
        "1",
        f"resident {line['p50']} MiB, proportional {line['proportional']} MiB; in "
        f"{line['seconds']:.0f} s {line['voluntarySwitches']} voluntary switches, "
        f"{line['cpuTicks']} ticks of CPU",
    ]


def main():
    rows = {"firstStep": first_step, "refill": refill, "parked": parked}
    print("| program | restart | p50 | p95 | medians of the parts, and beside it | load |")
    print("|---|---|---|---|---|---|")
    for text in sys.stdin:
        line = json.loads(text) if text.startswith("{") else {}
        if line.get("figure") in rows and "skipped" not in line:
            cells = [*rows[line["figure"]](line), f"{line['machine']['load']:.1f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
