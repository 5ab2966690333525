"""Checks that functions that a page names are defined where it says: named_functions.py FILE...

Looks at items of numbered lists that begin with `PATH` `FUNCTION`. Prints FILE:LINE for a path that
is not there and for a function that its file does not define, and exits with 1 if there is any.
"""

import functools
import pathlib
import re

from findings import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
ITEM = re.compile(r"^\d+\. `([\w./-]+\.\w+)` `([\w:]+)`")
STATEMENT = r"(?!\s*(?:return|if|while|for|switch|else|case|throw)\b)"


def defines(text, path, name):
    """Whether `text`, the file `path`, defines the function: itself, or inside its class."""
    if path.endswith(".py"):
        return bool(re.search(rf"^\s*def {name}\(", text, re.MULTILINE))
    *scopes, function = name.split("::")
    if re.search(rf"^(?!//)\S.*?(?<![\w:.>]){name}\((?!.*;\s*$)", text, re.MULTILINE):
        return True
    inside = not scopes or re.search(rf"\b(?:class|struct)\b[^;{{]*\b{scopes[-1]}\b[^;{{]*{{", text)
    line = rf"^\s+{STATEMENT}[^/\s][^=;(]*[\s&*]{function}\((?!.*;\s*$)"
    return bool(inside and re.search(line, text, re.MULTILINE))


@functools.cache
def text_of(path):
    return path.read_text()


def check(file, text, root=ROOT):
    for number, line in enumerate(text.splitlines(), 1):
        if not (item := ITEM.match(line)):
            continue
        path, name = item.groups()
        if not (root / path).is_file():
            yield f"{file}:{number}: there is no {path}"
        elif not defines(text_of(root / path), path, name):
            yield f"{file}:{number}: {path} does not define {name}"


if __name__ == "__main__":
    main(__doc__, check)
