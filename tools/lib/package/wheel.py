"""Writes a wheel with the programs and the Python modules, one for each architecture.

pip and uv put the programs side by side in the environment's bin/, where `lockstep` looks for
`lockstep-agent`. The programs are static, so one wheel serves glibc and musl, and every Python 3.
The same programs and modules give the same bytes.
"""

import base64
import hashlib
import os
import pathlib
import struct
import subprocess
import tomllib
import zlib

import staging
from errors import PackageError

SUMMARY = "write the Python wheel"

MODULES = staging.ROOT / "worker/python"
# Of tools/deps --packaging.
PYTHON = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") \
    / "lockstep/package/bin/python"
# The operator runs from its image, with the rights that the chart gives it. lockstep-s3 would make the
# wheel a quarter larger than an index may take without being asked.
PROGRAMS = ["lockstep", "lockstep-agent", "lockstep-pmix"]
# The tags of glibc 2.17 (PEP 599, by both of its names) and of musl 1.1 on. Static programs need
# neither library.
TAGS = {
    architecture: [f"py3-none-manylinux_2_17_{machine}", f"py3-none-manylinux2014_{machine}",
                   f"py3-none-musllinux_1_1_{machine}"]
    for architecture, machine in {"amd64": "x86_64", "arm64": "aarch64"}.items()
}
# A wheel holds no links.
KUBECTL_PLUGIN = """#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/lockstep" "$@"
"""


def add_arguments(parser):
    staging.add_stage_arguments(parser)
    parser.add_argument("--out", type=pathlib.Path, default=staging.ROOT / "build/dist", metavar="DIR",
                        help="where to write it (without it: build/dist)")
    parser.add_argument("--small", action="store_true",
                        help="compress by zopfli: 3 %% smaller, for a minute of a processor")


def run(options):
    project = read_project()
    if options.small:
        subprocess.run([staging.ROOT / "tools/deps", "--packaging"], check=True)
    options.out.mkdir(parents=True, exist_ok=True)
    for stage in staging.stage_all(options):
        print(write_wheel(project, stage, options.out, zopfli if options.small else deflate))


def read_project():
    """The table `project` of pyproject.toml, with the paths of its modules, and of its packages'
    files, under `files`."""
    document = tomllib.loads((MODULES / "pyproject.toml").read_text())
    project = document["project"]
    if project["version"] != staging.version():
        raise PackageError(f"worker/python/pyproject.toml has version {project['version']}, "
                           f"CMakeLists.txt has {staging.version()}: write one")
    setuptools = document["tool"]["setuptools"]
    return {**project, "files": [f"{module}.py" for module in setuptools["py-modules"]]
            + package_files(setuptools)}


def package_files(setuptools):
    """The paths of the packages' files, as setuptools chooses them: modules, and data by pattern."""
    patterns = ["*.py", *setuptools["package-data"]["*"]]
    return sorted({str(file.relative_to(MODULES)) for package in setuptools["packages"]["find"]["include"]
                   for pattern in patterns for file in (MODULES / package).glob(pattern)})


def write_wheel(project, stage, out, compress):
    """Writes the wheel of the programs in `stage`/bin to the folder `out` and returns its path."""
    name = f"{project['name'].replace('-', '_')}-{project['version']}"
    tags = TAGS[stage.name]
    files = list(contents(project, name, stage, tags))
    files.append((f"{name}.dist-info/RECORD", record(name, files), 0o644))
    platforms = ".".join(tag.rsplit("-", 1)[1] for tag in tags)
    path = out / f"{name}-py3-none-{platforms}.whl"
    path.write_bytes(archive(files, compress))
    return path


def contents(project, name, stage, tags):
    """(path in the wheel, bytes, mode) of each file but RECORD."""
    for file in project["files"]:
        yield file, (MODULES / file).read_bytes(), 0o644
    for program in PROGRAMS:
        yield f"{name}.data/scripts/{program}", (stage / "bin" / program).read_bytes(), 0o755
    yield f"{name}.data/scripts/kubectl-lockstep", KUBECTL_PLUGIN.encode(), 0o755
    for text, path in staging.texts().items():
        yield f"{name}.dist-info/{text}", path.read_bytes(), 0o644
    yield f"{name}.dist-info/METADATA", metadata(project).encode(), 0o644
    yield f"{name}.dist-info/WHEEL", wheel_facts(tags).encode(), 0o644


def metadata(project):
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        *[f"Classifier: {classifier}" for classifier in project["classifiers"]],
        f"Requires-Python: {project['requires-python']}",
        *extras(project["optional-dependencies"]),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (MODULES / project["readme"]).read_text()


def extras(groups):
    """The lines of packages that only `pip install NAME[GROUP]` installs."""
    for group, requirements in groups.items():
        yield f"Provides-Extra: {group}"
        yield from (f'Requires-Dist: {each}; extra == "{group}"' for each in requirements)


def wheel_facts(tags):
    lines = ["Wheel-Version: 1.0", "Generator: tools/package", "Root-Is-Purelib: false",
             *[f"Tag: {tag}" for tag in tags]]
    return "\n".join(lines) + "\n"


def record(name, files):
    def line(path, data):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        return f"{path},sha256={digest},{len(data)}\n"

    rows = "".join(line(path, data) for path, data, _ in files)
    return (rows + f"{name}.dist-info/RECORD,,\n").encode()


def archive(files, compress):
    """A zip file of (path, bytes, mode), with one date for all, so that its bytes repeat. `compress` makes
    raw DEFLATE of bytes. Python's zipfile takes nothing that is compressed already, so this writes the
    format itself (PKWARE's APPNOTE.TXT, 4.3).
    """
    date = (0, 1 << 5 | 1)  # 1 January 1980, 0:00, the first that the format knows
    body, directory = b"", b""
    for path, data, mode in files:
        name, packed = path.encode(), compress(data)
        # Version 2.0, no flags, DEFLATE.
        shared = struct.pack("<HHHHHLLLHH", 20, 0, 8, *date, zlib.crc32(data), len(packed), len(data),
                             len(name), 0)
        # Made on Unix (3), so that the mode counts.
        directory += struct.pack("<4sBB", b"PK\1\2", 20, 3) + shared + struct.pack(
            "<HHHLL", 0, 0, 0, (0o100000 | mode) << 16, len(body)) + name
        body += b"PK\3\4" + shared + name + packed
    end = struct.pack("<4sHHHHLLH", b"PK\5\6", 0, 0, len(files), len(files), len(directory), len(body), 0)
    return body + directory + end


def deflate(data):
    compressor = zlib.compressobj(9, wbits=-15)
    return compressor.compress(data) + compressor.flush()


def zopfli(data):
    """Smaller than zlib can, in the same format."""
    code = "import sys, zopfli.zlib; sys.stdout.buffer.write(zopfli.zlib.compress(sys.stdin.buffer.read(), " \
           "numiterations=1))"
    done = subprocess.run([PYTHON, "-c", code], input=data, capture_output=True, check=False)
    if done.returncode:
        raise PackageError(f"zopfli failed: {done.stderr.decode(errors='replace').strip()[-300:]}")
    return done.stdout[2:-4]  # without zlib's head and sum
