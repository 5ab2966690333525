#!/usr/bin/env python3
"""tools/lib/relative_links.py FOLDER: makes the absolute links in FOLDER relative to it.

Debian's packages have absolute links. In a sysroot these would lead to this machine's own files.
"""

import os
import pathlib
import sys


def make_relative(folder):
    """How many links it changed."""
    folder = pathlib.Path(folder).resolve()
    changed = 0
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = pathlib.Path(parent, name)
            if not path.is_symlink() or not os.readlink(path).startswith("/"):
                continue
            inside = f"{folder}{os.readlink(path)}"
            path.unlink()
            path.symlink_to(os.path.relpath(inside, parent))
            changed += 1
    return changed


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    make_relative(sys.argv[1])
