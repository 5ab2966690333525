"""Tables of core's rows: causes of failures, and known figures."""

import re
import sys

from crd.core import CORE

# Where a page explains more than a cell can; seen from events.md.
EXPLAINED = {
    "EarlyCrash": "trainingjob.md#rules", "Hang": "../operate/troubleshooting.md#evidence-of-a-hang",
    "MachineLost": "../operate/operations.md#when-a-node-dies",
}
FIELD = re.compile(r"\b(?:spec|failurePolicy|health)(?:\.\w+)+")


def causes(words, before):
    """`failures`: those with an event. `values`: all, with their numbers on the wire."""
    if words == ["values"]:
        rows = [f"| {value} | {row['name']} | {row['chargedTo']} |"
                for value, row in enumerate(CORE["causes"])]
        return "\n".join(["| value | cause | charged to |", "|---|---|---|", *rows]) + "\n"
    if words != ["failures"]:
        sys.exit(f"tools/reference: causes {' '.join(words)}: must be failures or values")
    rows = [f"| {_linked(row['name'])} | {_text(row['meaning'])} | {_text(row['toDo'])} |"
            for row in CORE["causes"] if row["chargedTo"] in ("application", "infrastructure")]
    return "\n".join(["| reason | recorded when | what to do |", "|---|---|---|", *rows]) + "\n"


def figures(words, before):
    rows = [f"| `{row['name']}` | `{row['reported']}` | {'sum' if row['sum'] else 'mean'} | "
            f"{row['heading']} | {row['meaning']} |" for row in CORE["figures"]]
    return "\n".join(["| figure | name in a report | over ranks | column | meaning |",
                      "|---|---|---|---|---|", *rows]) + "\n"


def _linked(name):
    return f"[`{name}`]({EXPLAINED[name]})" if name in EXPLAINED else f"`{name}`"


def _text(sentences):
    return FIELD.sub(lambda field: f"`{field[0]}`", sentences)
