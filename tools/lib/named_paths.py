"""Checks that files and folders of this repository that prose names exist: named_paths.py FILE...

Looks at Markdown and at comments. Prints FILE:LINE: the path that is not there, and exits with 1 if
there is any. A path with a placeholder (`NAME`, `<name>`, `*`, `…`) is not looked at.
"""

import functools
import pathlib
import re
import subprocess

from findings import FENCE, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENT = {".cc": "//", ".h": "//", ".c": "//", ".cu": "//", ".go": "//"}  # "#" in all others


def roots():
    """The repository's top folders."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True)
    return sorted({line.split("/")[0] for line in names.stdout.splitlines() if "/" in line})


def pattern(folders):
    named = "|".join(re.escape(folder) for folder in folders)
    return re.compile(rf"(?<![\w/.~$}}<>*\-])((?:{named})/[\w./+\-]*\w)(?![\w*<>{{$…]|/[*<A-Z{{…])")


def prose(path, text):
    """(number, text) of the lines that are prose: a comment's, or Markdown outside of fences."""
    markdown, mark, fenced = path.endswith(".md"), COMMENT.get(pathlib.Path(path).suffix, "#"), False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= markdown and bool(FENCE.match(line))
        if markdown:
            line = "" if fenced else re.sub(r"\]\([^)]*\)", "]", line)
        else:
            line = line.lstrip()
            line = line if line.startswith(mark) else ""
        if line:
            yield number, line


def exists(path, file):
    """As it is, as a source without its suffix, or below the folder of the file that names it."""
    for base in (ROOT, ROOT / pathlib.Path(file).parent):
        there = base / path
        if there.exists() or any(there.parent.glob(f"{there.name}.*")) \
                or any(there.parent.glob(f"{there.name}[-_]*")):
            return True
    return False


def check(path, text, named):
    for number, line in prose(path, text):
        for found in named.finditer(line):
            if not re.search(r"[A-Z]{2}", found[1].split("/")[-1].removesuffix("README.md")) \
                    and not exists(found[1], path):
                yield f"{path}:{number}: there is no {found[1]}"


if __name__ == "__main__":
    main(__doc__, functools.partial(check, named=pattern(roots())))
