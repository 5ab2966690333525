"""The messages that pages quote are those of the programs: a reader searches a page for them.

A message is compared by its fixed parts, between figures, names and words that come from elsewhere.
"""

import functools
import re

import pytest
import texts
from paths import ROOT

PAGES = ("docs/operate/troubleshooting.md", "docs/reference/events.md", "docs/reference/exit-codes.md",
         "docs/reference/pod-ends.md", "docs/guides/frameworks.md", "docs/guides/live.md",
         "docs/guides/slurm.md", "docs/internals/nccl.md")
SOURCES = ("base", "core", "worker", "operator", "cli")
SPAN = re.compile(r"`([^`\n]+)`")
# What stands between two fixed parts: gaps, figures, names, quoted words, places in a program.
NAMES = (r"gpt|gpt-\w+|team-a|ckpt|fetch|SIG[A-Z]+|barrier|load_batch|allreduce|Partial|node a|lost peer|PBS's job|"
         r"machine M|the process on|init container|is in|requests\.cpu|nvidia\.com/gpu|hangTimeout|startTimeout")
VARIABLE = re.compile(rf'…|\.\.\.|"[^"]*"|\(\w+\.py:\d+\)|\S*\d\S*|\b(?:{NAMES})\b|[:;,] | \(|\) ')
COMMAND = re.compile(r"(?:kubectl|lockstep|lockstep-trainer|torchfrtrace|ncclras|ray|mpirun|srun|docker|tools/\S+|-)[ -]")
WORDS = 3
# Words of Kubernetes, kubelet, NCCL and systems, which the programs pass on.
FOREIGN = {
    "minimum memory usage per Container is", "no such bucket", "exceeds the limit", "No space left on device",
    "connection reset by peer", "software caused connection abort", "transport endpoint is not connected",
    "Permission denied (publickey,password", "no matches for kind", "Missing communicator data from",
    "The missing rank"}


def fixed_parts(message):
    """The parts of a message that are the same in every case, of at least three words."""
    return [part for part in (each.strip(" .`()") for each in VARIABLE.split(message)) if len(part.split()) >= WORDS]


@functools.cache
def said():
    """All texts of the programs, one a line."""
    found = []
    for folder in SOURCES:
        for path in [*(ROOT / folder).rglob("*.cc"), *(ROOT / folder).rglob("*.h"), *(ROOT / folder).rglob("*.py")]:
            source = path.read_text()
            found += [text for _, text in texts.in_cpp(source)] if path.suffix != ".py" else [source]
    return "\n".join(found)


def quoted(page):
    """(line, fixed part) of each message that a page quotes."""
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        for span in SPAN.findall(line):
            for part in fixed_parts(span) if not COMMAND.match(span) else ():
                if part not in FOREIGN:
                    yield number, part


@pytest.mark.parametrize("page", PAGES)
def test_a_page_quotes_messages_as_the_programs_write_them(page):
    missing = [f"{page}:{number}: {part}" for number, part in quoted(page) if part not in said()]
    assert not missing, "no program writes this:\n" + "\n".join(missing)


def test_a_message_is_compared_by_its_fixed_parts():
    assert fixed_parts('machine 0: its volume claim is not bound: see "x"; 3 lost machines wait for it') == [
        "its volume claim is not bound", "lost machines wait for it"]
    assert "nobody would write these words" not in said()
