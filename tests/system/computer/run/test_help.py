"""--help of the programs that people type options of, read as one of them would."""

import re
import subprocess

import pytest
from tls import binary

COMMANDS = [["lockstep"], *(["lockstep", each] for each in (
    "run", "validate", "plan", "convert", "submit", "list", "status", "logs", "why", "debug", "scale", "delete",
    "bench", "topology", "mcp")),
    ["lockstep-operator"], ["lockstep-trainer"], *(["lockstep-trainer", *each] for each in (
        ["job"], ["train"], ["generate"], ["bench", "allreduce"],
        ["bench", "copies"], ["preflight"], ["analyze"]))]


COLUMN = 34  # where descriptions begin


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_describes_each_option_and_shows_no_internal_enum_syntax(command):
    program, *words = command
    done = subprocess.run([binary(program), *words, "--help"], capture_output=True, text=True,
                          check=True)
    assert not re.search(r"ENUM|->| OR \{", done.stdout), done.stdout
    lines = done.stdout.splitlines()
    for line, following in zip(lines, [*lines[1:], ""]):
        if not re.match(r"  -{1,2}\w", line):
            continue
        said = line[COLUMN - 1:COLUMN] == " " and line[COLUMN:] or following.startswith(" " * COLUMN)
        assert said, f"{line!r} has no description"
