#!/usr/bin/env python3
"""Lists every text that a program of Lockstep shows: texts.py [FOLDER...], one `FILE:LINE: text` a line.

These are help texts, errors, log lines, reasons, events and conditions in C++ (string literals of three
words and more; adjacent ones are joined, and values between them are `…`), descriptions of the CRD, and
the titles, descriptions and alerts of the chart. Review the same thing in the same words with it:

    tools/lib/texts.py cli operator | sort -t: -k3
"""

import json
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("base", "core", "worker", "operator", "cli", "crds", "helm")
LITERAL = re.compile(r'(?<![\w\'])"((?:[^"\\\n]|\\.)*)"')
COMMENT = re.compile(r"//[^\n]*")
# Between two literals of one text: nothing, or a value that is added to it.
JOINED = re.compile(r"^\s*(?:\+\s*[\w:.>()\-*\[\], ]+?\s*\+\s*)?$")
SHOWN_KEYS = ("description", "title", "summary", "message")


def in_cpp(text):
    """(line, text) of each text in C++."""
    text = COMMENT.sub(lambda comment: " " * len(comment[0]), text)
    start, parts, end = 0, [], None
    for literal in LITERAL.finditer(text):
        between = text[end:literal.start()] if end is not None else None
        if between is not None and JOINED.match(between) and between.count("\n") < 4:
            parts.append("…" if between.strip() else "")
        else:
            if parts:
                yield start, "".join(parts)
            start, parts = text.count("\n", 0, literal.start()) + 1, []
        parts.append(literal[1])
        end = literal.end()
    if parts:
        yield start, "".join(parts)


def in_yaml(text):
    """(line, text) of each description of a document."""
    for document in yaml.safe_load_all(text):
        yield from in_tree(document)


def in_tree(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key in SHOWN_KEYS and isinstance(value, str):
                yield 1, value
            else:
                yield from in_tree(value)
    elif isinstance(node, list):
        for value in node:
            yield from in_tree(value)


def texts(path):
    content = (ROOT / path).read_text()
    if path.endswith((".cc", ".h")):
        found = in_cpp(content)
    elif path.endswith(".json"):
        found = in_tree(json.loads(content))
    elif "{{" in content:  # a template of the chart
        found = [(number, line.strip()) for number, line in enumerate(content.splitlines(), 1)
                 if path.endswith("NOTES.txt") or re.match(r"\s*(summary|description):", line)]
    else:
        found = in_yaml(content)
    for number, text in found:
        if len(text.split()) >= 3 and re.search(r"[a-z]{2} [a-z]", text):
            yield f"{path}:{number}: {' '.join(text.split())}"


def main():
    names = subprocess.run(["git", "-C", ROOT, "ls-files", *(sys.argv[1:] or FOLDERS)], check=True,
                           capture_output=True, text=True).stdout.split()
    for name in names:
        if name.endswith((".cc", ".h", ".yaml", ".json", "NOTES.txt")):
            for text in texts(name):
                print(text)


if __name__ == "__main__":
    main()
