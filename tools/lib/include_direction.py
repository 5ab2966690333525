"""Checks who includes whom: include_direction.py FILE...

A room is a part of the tree, such as core/plan or worker/trainer; ROOMS has what each may include. The
folders inside a room stand on floors; FLOORS has them in order. Prints each include that points the
wrong way and each folder without a place, and exits with 1 if there is one.
"""

import pathlib
import re
import sys

# Room -> the rooms that it may include besides itself. The nearest room above a file counts.
RECORDS = {"core/failure", "core/terms", "core/preflight", "core/text", "core/record"}
CORE = {
    "core": set(),
    "core/failure": {"base", "core"},
    "core/terms": {"base", "core", "core/failure"},
    "core/preflight": {"base"},
    "core/text": {"base"},
    "core/scan": {"base"},
    "core/record": {"base", "core", "core/failure", "core/terms", "core/preflight", "core/text"},
    "core/model": {"base", "core", *RECORDS},
    "core/plan": {"base", "core", *RECORDS, "core/model"},
    "core/validate": {"base", "core", *RECORDS, "core/model", "core/plan", "core/scan"},
    "core/status": {"base", "core", *RECORDS, "core/model"},
    "core/gang": {"base", "core", *RECORDS},
}
BELOW = {"base", *CORE}
ROOMS = {
    "base": set(),
    **CORE,
    "operator/kube": BELOW,
    "operator/gang": BELOW,
    "operator/policy": BELOW,
    "operator/objects": BELOW | {"operator/kube"},
    "operator/controller": BELOW
    | {"operator/kube", "operator/gang", "operator/policy", "operator/objects"},
    "worker/measure": {"base"},
    "worker/topology": BELOW,
    "worker/ras": {"base"},
    "worker/place": {"base"},
    "worker/code": {"base"},
    "worker/pmix": BELOW,
    "worker/agent": BELOW
    | {"worker/measure", "worker/topology", "worker/ras", "worker/place", "worker/code", "worker/pmix"},
    "worker/trainer/collectives": BELOW | {"worker/ras"},
    "worker/trainer": BELOW | {"worker/trainer/collectives", "worker/topology", "worker/measure"},
    "cli": BELOW
    | {"worker/topology", "worker/place", "worker/code", "operator/policy", "operator/kube", "operator/gang"},
}
# Room -> its folders in order: each may include those before it. "." is the room's own files. Folders
# in one tuple do not include each other; those in a set do, and should be parted. A program's main.cc may include its whole room.
FLOORS = {
    "base": (".", ("loop", "process", "text", "crypto"), "events", ("net", "man"), "http"),
    "core/gang": ("protocol", ("diagnosis", "roster"), ("member", "coordinator"), "status"),
    "operator/kube": ("config", "http", "http/cpprest", ".", "decode", "watch"),
    "operator/policy": ("facts", "status", "kube", "."),
    "operator/controller": ("jobs", "metrics", "observe", "."),
    "worker/agent": (
        ("processes", "files"),
        "metrics",
        "logs",
        ("memory", "code", "services", "parked"),
        "storage",
        "rank_socket",
        "evidence",
        "ranks",
        ("gang", "http"),
        "measure",
        ".",
    ),
    "worker/topology": (".", "plan", "binding"),
    "worker/pmix": (".", "helper"),
    "worker/trainer/collectives": ("cuda", ".", "store", ("gloo", "nccl"), "group"),
    "worker/trainer": (
        ("process", "data"),
        "model",
        ("checkpoint", "link"),
        "engine",
        "cuda/libraries",
        "cuda/device",
        "cuda",
        ("cuda/check", "cuda/engine"),
        "report",
        "saving",
        ("measure", "run"),
        "generate",
        "commands",
        ".",
    ),
    "cli": (
        ".",
        ("programs", "job", "numa", "convert", "ui/embedded"),
        ("machine", "sync"),
        "run/output",
        ("run/machines", "ui"),
        "run",
        ("cluster", "mcp", "tune"),
        "cluster/page",
        "commands",
    ),
}
# Not part of the product: these may include anything.
OUTSIDE = ("tests/", "bench/")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def place_of(path):
    """(the room that `path` belongs to, its folder there), or (None, None)."""
    folder = pathlib.PurePosixPath(path).parent
    for parent in (folder, *folder.parents):
        if str(parent) in ROOMS:
            return str(parent), str(folder.relative_to(parent))
    return None, None


def floor_of(room, folder):
    """The number of the floor in FLOORS, or None."""
    for number, floor in enumerate(FLOORS[room]):
        if folder == floor or (not isinstance(floor, str) and folder in floor):
            return number
    return None


def problem_of(path, target):
    """What is wrong with including `target`, or None."""
    (room, folder), (wanted, wanted_folder) = place_of(path), place_of(target)
    if wanted not in {None, room} | ROOMS[room]:
        allowed = ", ".join(sorted(ROOMS[room])) or "nothing but itself"
        return (
            f"{room} may not include {wanted} ({target}); it may include {allowed}. "
            "Move what both need to a room above them"
        )
    if wanted != room or folder == wanted_folder or room not in FLOORS or path.endswith("/main.cc"):
        return None
    own, other = floor_of(room, folder), floor_of(room, wanted_folder)
    together = own == other and own is not None and isinstance(FLOORS[room][own], set)
    if own is not None and other is not None and own <= other and not together:
        return (
            f"{folder} may not include {wanted_folder} ({target}) inside {room}: "
            "see FLOORS in tools/lib/include_direction.py"
        )
    return None


def problems(path, lines):
    room, folder = place_of(path)
    test = path.startswith(OUTSIDE)
    if room in FLOORS and floor_of(room, folder) is None:
        yield f"{path}:1: {folder} has no place in {room}: give it one in FLOORS of {__file__}"
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
        elif room and (problem := problem_of(path, target)):
            yield f"{where}: {problem}"


def main(files):
    found = [p for f in files for p in problems(f, pathlib.Path(f).read_text().splitlines())]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    if "--help" in sys.argv[1:]:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
