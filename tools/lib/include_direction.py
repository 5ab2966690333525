"""Checks who includes whom: include_direction.py FILE...

Every folder may include only the folders that docs/internals/architecture.md puts above it. Prints each
include that points the wrong way, and exits with 1 if there is one.
"""

import pathlib
import re
import sys

# Folder -> what it may include besides itself. The nearest folder of a file that stands here counts.
RECORDS = {"core/failure", "core/text", "core/record"}
CORE = {
    "core": set(),
    "core/failure": {"base", "core"},
    "core/text": {"base"},
    "core/record": {"base", "core", "core/failure", "core/text"},
    "core/model": {"base", "core", *RECORDS},
    "core/plan": {"base", "core", *RECORDS, "core/model"},
    "core/validate": {"base", "core", *RECORDS, "core/model", "core/plan"},
    "core/status": {"base", "core", *RECORDS, "core/model"},
    "core/gang": {"base", "core", *RECORDS},
}
BELOW = {"base", *CORE}
ALLOWED = {
    "base": set(),
    **CORE,
    "operator/kube": BELOW,
    "operator/gang": BELOW,
    "operator/policy": BELOW,
    "operator/objects": BELOW | {"operator/kube"},
    "operator/controller": BELOW
    | {"operator/kube", "operator/gang", "operator/policy", "operator/objects"},
    "worker/topology": BELOW,
    "worker/ras": {"base"},
    "worker/place": BELOW,
    "worker/pmix": BELOW,
    "worker/agent": BELOW | {"worker/topology", "worker/ras", "worker/place", "worker/pmix"},
    "worker/trainer/collectives": BELOW | {"worker/ras"},
    "worker/trainer": BELOW | {"worker/trainer/collectives", "worker/topology"},
    "cli": BELOW
    | {"worker/topology", "worker/place", "operator/policy", "operator/kube", "operator/gang"},
}
# Not part of the product: these may include anything.
OUTSIDE = ("tests/", "bench/")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def folder_of(path):
    """The folder of ALLOWED that `path` belongs to, or None."""
    for parent in pathlib.PurePosixPath(path).parents:
        if str(parent) in ALLOWED:
            return str(parent)
    return None


def problems(path, lines):
    folder = folder_of(path)
    test = path.startswith(OUTSIDE)
    for number, line in enumerate(lines, start=1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        where = f"{path}:{number}"
        if "/" not in target:
            yield f'{where}: write the path from the repository root instead of "{target}"'
        elif target.startswith(OUTSIDE) and not test:
            yield f"{where}: {target} is of a test or benchmark, which the product may not include"
        elif folder and (wanted := folder_of(target)) not in {None, folder} | ALLOWED[folder]:
            allowed = ", ".join(sorted(ALLOWED[folder])) or "nothing but itself"
            yield (
                f"{where}: {folder} may not include {wanted} ({target}); it may include {allowed}. "
                "Move what both need to a folder above them"
            )


def main(files):
    found = [p for f in files for p in problems(f, pathlib.Path(f).read_text().splitlines())]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    if "--help" in sys.argv[1:]:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
