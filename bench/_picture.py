"""The lines of `restart`'s row compare as the picture of docs/internals/benchmarks.md, and its table:

tools/bench restart -- --rows compare > lines
python3 bench/_picture.py lines > docs/images/recovery.svg
python3 bench/_picture.py --table lines
"""

import json
import sys

NAMES = {"torchrun": "torchrun", "jobset": "JobSet", "torchft": "torchft", "fresh": "Lockstep, all anew",
         "parked": "Lockstep, parked", "lives-on": "Lockstep, lives on"}
# Of the palette of Okabe and Ito, which colour-blind readers can tell apart; on light and dark.
PARTS = {"detect": "#d55e00", "stop": "#e69f00", "spawn": "#cc79a7", "imports": "#0072b2", "join": "#56b4e9",
         "load": "#009e73", "step": "#999999"}
LEFT, WIDTH, BAR, GAP, TOP = 160, 560, 22, 14, 64


def seconds(ms):
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


def picture(lines):
    height = TOP + len(lines) * (BAR + GAP) + 8
    longest = max(sum(line["parts"].values()) for line in lines)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 80} {height}" '
           f'width="{LEFT + WIDTH + 80}" height="{height}" font-family="DejaVu Sans, Arial, sans-serif" '
           'font-size="13">',
           "<title>From a rank's SIGKILL until all ranks step again, by part</title>",
           "<style>text{fill:#1f2328}.back{fill:#ffffff}@media (prefers-color-scheme:dark)"
           "{text{fill:#e6edf3}.back{fill:#0d1117}}</style>",
           '<rect class="back" width="100%" height="100%"/>',
           f'<text x="8" y="20">From a rank\'s SIGKILL until all ranks step again (medians, '
           f'{lines[0]["shape"].replace("x", " × ")})</text>']
    x = LEFT
    for part, colour in PARTS.items():
        out.append(f'<rect x="{x}" y="34" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{x + 16}" y="45">{part}</text>')
        x += 80
    for row, line in enumerate(lines):
        y, x = TOP + row * (BAR + GAP), float(LEFT)
        out.append(f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">{NAMES[line["mode"]]}</text>')
        for part, colour in PARTS.items():
            wide = line["parts"][part] * WIDTH / longest
            if wide >= 0.05:
                out.append(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{BAR}" fill="{colour}">'
                           f'<title>{part}: {seconds(line["parts"][part])}</title></rect>')
            x += wide
        out.append(f'<text x="{x + 6:.1f}" y="{y + 16}">{seconds(line["p50"])}</text>')
    return "\n".join([*out, "</svg>"])


def table(lines):
    yield "| launcher | p50, max | " + " | ".join(PARTS) + " | n | load |"
    yield "|---" * (len(PARTS) + 4) + "|"
    for line in lines:
        low, high = line["loads"]
        parts = " | ".join(f"{line['parts'][part]:,.0f}" for part in PARTS)
        yield (f"| {NAMES[line['mode']]} | {line['p50']:,.0f}, {line['max']:,.0f} | {parts} | "
               f"{line['samples']} | {low:.0f} to {high:.0f} |")


def main():
    *options, file = sys.argv[1:]
    with open(file, encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines if line.startswith("{")]
    found = {line["mode"]: line for line in read if line["figure"] == "compare" and "parts" in line}
    ordered = [found[mode] for mode in NAMES if mode in found]
    print("\n".join(table(ordered)) if "--table" in options else picture(ordered))


if __name__ == "__main__":
    main()
