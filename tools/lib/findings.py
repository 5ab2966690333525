"""What the checks of prose share: their command line, and the fences of Markdown."""

import pathlib
import re
import sys

FENCE = re.compile(r"^\s*(```|~~~)")


def main(about, check):
    """Checks the files that the command line names. check(path, text) yields a line for each finding.
    Exits with 1 if there is any."""
    if len(sys.argv) < 2 or "--help" in sys.argv:
        sys.exit(about)
    found = [line for file in sys.argv[1:]
             for line in check(file, pathlib.Path(file).read_text(errors="replace"))]
    if found:
        print("\n".join(found))
    sys.exit(1 if found else 0)
