"""Runs clang-tidy's checks on files, in parallel: tidy.py [--deep] BUILD_FOLDER CACHE_FOLDER FILE...

clang-tidy itself walks the standard library again in every file that includes it, which takes most
of its time. So two programs share the work, both with the checks of .clang-tidy:

    clangd      every .cc and every header; looks at nothing that a file includes
    clang-tidy  with --deep: the checks that clangd leaves out, which follow the paths through a
                function; not for tests, whose paths are short and run

clangd spends most of its time on what a file includes. So files of a folder are first joined into one
text. If clangd finds nothing there, all of them are clean; else it looks at each file by itself.

A file that came out clean is not looked at again until its text, its compile command, a header of
this repository that it includes, the configuration or the programs change. Comments and the
folders of files do not count: a reworded comment in a header and a moved file cost no look. A .cc
that this machine does not build is left out. Exits with 1 if there is anything to mend.
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

CLANGD = "clangd-19"
TIDY = "clang-tidy-19"
PATHS = (
    "-*,clang-analyzer-core.*,clang-analyzer-cplusplus.*,clang-analyzer-deadcode.*,"
    "clang-analyzer-unix.*,bugprone-use-after-move"
)
# Saves two thirds of the time; findings within one function stay the same.
SHALLOW = [
    f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", "mode=shallow")
]
CONFIGURATION = (".clang-tidy", ".clangd")
# What names a file in a compile command.
OUTPUT = re.compile(r" -o \S+| -c \S+")
MACRO = re.compile(r"#define (\w+)")
BATCH = 12  # files
# A string, a separator between digits, a character or a comment.
TOKEN = re.compile(
    r'''R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])'''
    r"""|'(?:\\.|[^'\\\n])*'|//(?:\\\n|[^\n])*|/\*(?:.|\n)*?\*/""")
GUARD = re.compile(r"\bLOCKSTEP_[A-Z0-9_]+_H_\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
FINDING = re.compile(r"\[(\S+)\] Line (\d+): (.*)")


def essence(text):
    """What the checks read: no folders, no empty lines, no comments but NOLINT and /*name=*/."""
    text = TOKEN.sub(lambda found: " " if found[0].startswith("//") and "NOLINT" not in found[0]
                     else found[0], text)
    text = GUARD.sub("GUARD", INCLUDE.sub(lambda found: f'#include "{os.path.basename(found[1])}"', text))
    return "\n".join(filter(None, map(str.rstrip, text.splitlines())))


@functools.cache
def read(path):
    """The digest of a file's essence, and the files of the repository that it includes itself."""
    text = pathlib.Path(path).read_text()
    included = [name for name in INCLUDE.findall(text) if os.path.exists(name)]
    return hashlib.sha256(essence(text).encode()).hexdigest(), included


def key(path, *more):
    seen, open_files = {}, [path]
    while open_files:
        current = open_files.pop()
        if current not in seen:
            seen[current], included = read(current)
            open_files += included
    own = os.path.basename(path), seen.pop(path)
    return hashlib.sha256(repr((own, sorted(seen.values()), more)).encode()).hexdigest()


def look(path, build):
    """What clangd has to say."""
    run = subprocess.run(
        [CLANGD, f"--check={os.path.abspath(path)}", "--check-locations=0", "--log=error",
         f"--compile-commands-dir={build}"],
        capture_output=True,
        text=True,
    )  # fmt: skip
    said = FINDING.findall(run.stderr)
    if run.returncode != 0 and not said:
        return run.stderr
    # The build shows the compiler's warnings. clangd skips the bodies in headers, and so would take
    # what is used only there for unused.
    found = [f"{path}:{line}: {what} [{check}]" for check, line, what in said if check[:2] != "-W"]
    return "\n".join(dict.fromkeys(found))


def in_order(paths):
    """The headers among `paths` after those of them that they include."""
    ordered, seen = [], set()

    def add(path):
        if path not in seen:
            seen.add(path)
            for name in read(path)[1]:
                if name in paths:
                    add(name)
            ordered.append(path)

    for path in paths:
        add(path)
    return ordered


def needs_its_own_look(path):
    """Whether a neighbour could hide a finding: a name that is only declared to be used, or a line that
    includes the same file twice."""
    text = pathlib.Path(path).read_text()
    includes = re.findall(r"^#include.*", text, re.MULTILINE)
    used = re.findall(r"^\s*using\s+[\w:]+::(\w+);", text, re.MULTILINE)
    return len(set(includes)) < len(includes) or any(
        len(re.findall(rf"\b{name}\b", text)) < 2 for name in used)


def join(paths):
    """The files' texts in a row. A line that an earlier file includes is left empty, and macros end with
    their .cc."""
    text, included = [], set()
    for path in in_order(paths):
        own, macros = set(), set()
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith("#include"):
                own.add(line)
                line = "" if line in included else line
            elif path.endswith(".cc") and (macro := MACRO.match(line)):
                macros.add(f"#undef {macro[1]}")
            text.append(line)
        text += ["", *sorted(macros)]
        included |= own
    return "\n".join(text) + "\n"


def look_joined(paths, flags, build):
    """Whether clangd finds nothing in the text of these files, which have one suffix."""
    suffix = pathlib.PurePosixPath(paths[0]).suffix
    name = hashlib.sha256(repr(paths).encode()).hexdigest()[:16]
    folder = pathlib.Path(build, "joined", name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"joined{suffix}"
    file.write_text(join(paths))
    language = "-x c++-header" if suffix == ".h" else "-x c++"
    (folder / "compile_commands.json").write_text(json.dumps([{
        "directory": str(pathlib.Path(build).absolute()), "file": str(file),
        "command": f"{flags} {language} -c {file}"}]))
    return look(file, folder) == ""


def batches(jobs, commands):
    """Pairs of paths and flags: files of one folder, of one suffix and with the same flags."""
    flags, by_folder = {}, {}
    for path, command in commands.items():
        flags[path] = OUTPUT.sub("", command)
        by_folder.setdefault(os.path.dirname(path), flags[path])
    groups = {}
    for path in jobs:
        folder, suffix = os.path.split(path)[0], os.path.splitext(path)[1]
        known = flags.get(path) or by_folder.get(folder)
        if known and not needs_its_own_look(path):
            groups.setdefault((folder, suffix, known), []).append(path)
    for (_, _, known), paths in groups.items():
        parts = -(-len(paths) // BATCH)
        for part in (paths[start::parts] for start in range(parts)):
            if len(part) > 2:
                yield part, known


def follow(path, build):
    """What clang-tidy has to say."""
    run = subprocess.run(
        [TIDY, "-p", build, "--quiet", "--warnings-as-errors=*", f"--checks={PATHS}", *SHALLOW,
         path],
        capture_output=True,
        text=True,
    )  # fmt: skip
    return "" if run.returncode == 0 else run.stdout or run.stderr


def version(program):
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout


def main(deep, build, cache, *files):
    root = os.getcwd()
    written = {
        os.path.relpath(c["file"], root): c["command"]
        for c in json.loads(pathlib.Path(build, "compile_commands.json").read_text())
    }
    commands = {path: command.replace(root, "") for path, command in written.items()}
    tools = [version(TIDY), version(CLANGD)]
    tools += [pathlib.Path(p).read_text() for p in CONFIGURATION if os.path.exists(p)]
    jobs = {}  # the quick ones first
    for path in sorted(set(files)):
        if path in commands or path.endswith(".h"):
            jobs[look, path] = key(path, CLANGD, OUTPUT.sub("", commands.get(path, "")), *tools)
    for path in sorted(set(files) & commands.keys()):
        if deep and not path.startswith(("tests/", "bench/")):
            jobs[follow, path] = key(path, TIDY, OUTPUT.sub("", commands[path]), PATHS, SHALLOW, *tools)

    unknown = [path for path in files if path.endswith(".cc") and path not in commands]
    os.makedirs(cache, exist_ok=True)
    stamps = {job: pathlib.Path(cache, name) for job, name in jobs.items()}
    todo = [job for job, stamp in stamps.items() if not stamp.exists()]
    if len(todo) > 100:
        print(f"clang-tidy: {len(todo)} of {len(jobs)} looks to take: minutes", file=sys.stderr)
    bad = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        looks = [path for kind, path in todo if kind is look]
        joined = list(batches(looks, written))
        for (paths, _), clean in zip(joined, pool.map(
                lambda batch: look_joined(*batch, build), joined)):
            if clean:
                for path in paths:
                    stamps[look, path].touch()
        left = [job for job in todo if not stamps[job].exists()]
        for job, said in zip(left, pool.map(lambda job: job[0](job[1], build), left)):
            if said:
                bad.add(job[1])
                print(said, flush=True)
            else:
                stamps[job].touch()
    print(f"clang-tidy: {len({p for _, p in todo})} files looked at, "
          f"{len({p for _, p in jobs} - {p for _, p in todo})} unchanged, {len(unknown)} not built "
          f"here, {len(bad)} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--deep"]
    if len(arguments) < 2 or "--help" in arguments:
        sys.exit(__doc__)
    sys.exit(main(len(arguments) < len(sys.argv) - 1, *arguments))
