"""Tables of metrics: type and meaning as the C++ that exports them has them. Order and labels are the
page's own, which tests compare with the programs.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
LITERALS = r'(?:"(?:[^"\\]|\\.)*"\s*)+'
# Gauge("name", "help" or a variable, …) and BuildGauge().Name("name").Help("help").
METRIC = re.compile(r"(Gauge|Counter|Histogram|Summary)(?:\(\)\s*\.Name)?\(\s*(?:\w+, )?"
                    rf'"(lockstep_\w+)"(?:\)\s*\.Help\(|,)\s*({LITERALS}|\w+)')
ROW = re.compile(r"^\| `(lockstep_\w+)` \| [^|]* \| ([^|]*?) ?\|", re.MULTILINE)
TYPES = {"Summary": "sum and count"}


class Table:
    """Makes the table of the metrics that a block has, of the sources in the folder that it names."""

    def __init__(self):
        self._found = {}

    def __call__(self, words, before):
        [folder] = words
        sources = _metrics(folder)
        listed = dict(ROW.findall(before))
        for name in sources.keys() ^ listed.keys():
            sys.exit(f"metrics.md, {folder}: {name} is "
                     + ("not exported; remove its row" if name in listed else
                        f"missing; add a row `| `{name}` |  | LABELS |  |`"))
        rows = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
        rows += [f"| `{name}` | {sources[name][0]} | {labels} | {sources[name][1]} |"
                 for name, labels in listed.items()]
        return "\n".join(rows) + "\n"


def _metrics(folder):
    names = subprocess.run(["git", "-C", ROOT, "ls-files", f"{folder}/*.cc"], check=True,
                           capture_output=True, text=True).stdout.split()
    found = {}
    for name in names:
        text = (ROOT / name).read_text()
        for kind, metric, said in METRIC.findall(text):
            if not said.startswith('"'):
                said = re.search(rf"\b{said}\s*=\s*({LITERALS});", text)[1]
            meaning = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', said)).rstrip(".") + "."
            found[metric] = (TYPES.get(kind, kind.lower()), meaning.replace("|", "\\|"))
    return found
