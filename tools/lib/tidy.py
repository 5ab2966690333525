"""Runs clang-tidy on files, in parallel: tidy.py BUILD_FOLDER CACHE_FOLDER FILE...

A file that came out clean is not looked at again until its text, its compile command, a header of
this repository that it includes, .clang-tidy, or clang-tidy itself changes. For a header, its .cc is
checked, or where it has none, the first one that includes it. Exits with 1 if clang-tidy had anything to say.
"""

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

TIDY = "clang-tidy-19"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@functools.cache
def reaches(path):
    """`path` and every file of the repository that it includes, directly or not."""
    seen, open_files = set(), [path]
    while open_files:
        current = open_files.pop()
        if current in seen or not os.path.exists(current):
            continue
        seen.add(current)
        open_files += INCLUDE.findall(pathlib.Path(current).read_text())
    return sorted(seen)


def key(source, command, tools):
    parts = [tools, command] + [p + "\0" + pathlib.Path(p).read_text() for p in reaches(source)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def source_of(path, sources):
    """The .cc file whose check covers `path`, or None."""
    twin = str(pathlib.Path(path).with_suffix(".cc"))
    return twin if twin in sources else next((s for s in sources if path in reaches(s)), None)


def check(source, build):
    run = subprocess.run(
        [TIDY, "-p", build, "--quiet", "--warnings-as-errors=*", source],
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stdout or run.stderr


def main(build, cache, *files):
    commands = json.loads(pathlib.Path(build, "compile_commands.json").read_text())
    root = os.getcwd()
    commands = {
        os.path.relpath(c["file"], root): c["command"].replace(root, "") for c in commands
    }
    wanted = {source_of(f, sorted(commands)) for f in files} - {None}
    tools = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    tools += pathlib.Path(".clang-tidy").read_text()

    os.makedirs(cache, exist_ok=True)
    stamps = {s: pathlib.Path(cache, key(s, commands[s], tools)) for s in wanted}
    todo = sorted(s for s, stamp in stamps.items() if not stamp.exists())
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, (code, output) in zip(todo, pool.map(lambda s: check(s, build), todo)):
            if code == 0:
                stamps[source].touch()
            else:
                bad += 1
                print(f"{source}:\n{output}")
    print(f"clang-tidy: {len(todo)} files checked, {len(stamps) - len(todo)} unchanged, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or "--help" in sys.argv[1:]:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
