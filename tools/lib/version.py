#!/usr/bin/env python3
"""version.py [--check | --set VERSION]: prints the version of the tree, which is that of CMakeLists.txt.

  --check        exits with 1 if another place names another version
  --set VERSION  writes VERSION into all places"""

import argparse
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = r"(?:0|[1-9][0-9]*)"
VERSION = rf"{NUMBER}\.{NUMBER}\.{NUMBER}"
SOURCE = "CMakeLists.txt"


@dataclasses.dataclass(frozen=True)
class Place:
    """Files that match `glob`; group 1 of `pattern` is the version. At least one file must match."""

    glob: str
    pattern: str


PLACES = [
    Place(SOURCE, rf"^project\(lockstep VERSION ({VERSION}) "),
    Place("helm/lockstep/Chart.yaml", rf"^version: ({VERSION})$"),
    Place("helm/lockstep/Chart.yaml", rf"^appVersion: ({VERSION})\b"),
    Place("worker/python/pyproject.toml", rf'^version = "({VERSION})"$'),
    Place("README.md", rf"^- Version ({VERSION})\."),
    Place("docs/**/*.md", rf"\blockstep/(?:operator|worker|worker-cuda):({VERSION})\b"),
    Place("docs/operate/security.md", rf"\blockstep-operator-({VERSION})\.(?:sig\.)?oci\.tar\b"),
    Place("docs/guides/*.md", rf"\blockstep[_-]({VERSION})-r?[0-9]+[_.]"),
    Place("docs/operate/install.md", rf"tags the images with the version, `({VERSION})`"),
    Place("docs/operate/operator.md", rf"`image\.tag=({VERSION})-cpprestsdk`"),
    Place("tests/system/api-server/chart/golden/*.yaml",
          rf"(?:helm\.sh/chart: lockstep-|app\.kubernetes\.io/version: \"|"
          rf"\blockstep/[a-z-]+:)({VERSION})\b"),
]


class Wrong(Exception):
    """A place without a version."""


def found(root=ROOT):
    """(file, line number, version) of each place, the source's first."""
    for place in PLACES:
        count = 0
        for path in sorted(root.glob(place.glob)):
            text = path.read_text()
            for match in re.finditer(place.pattern, text, re.MULTILINE):
                count += 1
                line = text.count("\n", 0, match.start()) + 1
                yield path.relative_to(root).as_posix(), line, match[1]
        if not count:
            raise Wrong(f"{place.glob}: no text matches {place.pattern}; correct the file, or "
                        f"PLACES in tools/lib/version.py")


def current(root=ROOT):
    return next(found(root))[2]


def differing(root=ROOT):
    """A line for each place whose version is not that of CMakeLists.txt."""
    wanted = current(root)
    return [f"{name}:{line}: version {version}, but {SOURCE} has {wanted}"
            for name, line, version in found(root) if version != wanted]


def is_version(text):
    return re.fullmatch(VERSION, text) is not None


def write(version, root=ROOT):
    """Names of the files that changed."""
    list(found(root))  # raises before anything is written
    changed = set()
    for place in PLACES:
        for path in sorted(root.glob(place.glob)):
            text = path.read_text()
            made = re.sub(place.pattern, lambda match: _replaced(match, version), text,
                          flags=re.MULTILINE)
            if made != text:
                path.write_text(made)
                changed.add(path.relative_to(root).as_posix())
    return sorted(changed)


def _replaced(match, version):
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return match[0][:start] + version + match[0][end:]


def main():
    parser = argparse.ArgumentParser(prog="version.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    mode.add_argument("--set", metavar="VERSION", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        if arguments.set:
            if not is_version(arguments.set):
                parser.error(f"--set takes MAJOR.MINOR.PATCH, not '{arguments.set}'")
            print(*write(arguments.set), sep="\n")
        elif arguments.check:
            lines = differing()
            print(*lines, sep="\n" if lines else "")
            sys.exit(1 if lines else 0)
        else:
            print(current())
    except Wrong as wrong:
        sys.exit(f"version.py: {wrong}")


if __name__ == "__main__":
    main()
