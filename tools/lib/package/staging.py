"""Builds the programs and copies them to build/stage/ARCH/bin, where the other commands take them.

ARCH is amd64 (preset release) or arm64 (preset release-arm64). The programs are stripped, as the
presets link them. A program that is a link to another one in the same folder stays a link.
"""

import os
import pathlib
import shutil
import struct
import subprocess
import sys

from errors import PackageError

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

import version as versions

SUMMARY = "build the programs and copy them to build/stage/ARCH/bin"

ROOT = pathlib.Path(__file__).resolve().parents[3]
STAGE = ROOT / "build/stage"
NOTICE = STAGE / "NOTICE"  # of `tools/package notice`, if it has run
PROGRAMS = ["lockstep", "lockstep-agent", "lockstep-pmix", "lockstep-s3", "kubectl-lockstep", "lockstep-operator"]
# An architecture's preset of CMake, and its number in an ELF header (e_machine).
PRESETS = {"amd64": "release", "arm64": "release-arm64"}
MACHINES = {"amd64": 62, "arm64": 183}
INTERPRETER = 3  # the type of the segment that names a program's loader (PT_INTERP)


def version():
    return versions.current(ROOT)


def texts():
    """{name: path} of the licences that every package holds."""
    return {path.name: path for path in (ROOT / "LICENSE", NOTICE) if path.exists()}


def source_date():
    """The seconds since 1970 that all files of a release have: SOURCE_DATE_EPOCH, else the commit's."""
    if wanted := os.environ.get("SOURCE_DATE_EPOCH"):
        if not wanted.isdecimal():
            raise PackageError(f"SOURCE_DATE_EPOCH must be a number of seconds, not '{wanted}'")
        return int(wanted)
    done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise PackageError("this is no git checkout, so set SOURCE_DATE_EPOCH to the release's date")
    return int(done.stdout)


def add_arguments(parser):
    add_stage_arguments(parser)


def add_stage_arguments(parser):
    """The options of every command that stages programs before its own work."""
    parser.add_argument("--arch", action="append", choices=list(PRESETS),
                        help="an architecture; may be repeated (without it: amd64)")
    parser.add_argument("--no-build", action="store_true",
                        help="take the programs that an earlier build left")


def run(options):
    for folder in stage_all(options):
        print(folder)


def stage_all(options):
    """Stages each architecture of the options of add_stage_arguments() and returns the folders."""
    wanted = dict.fromkeys(options.arch or ["amd64"])
    return [stage(architecture, compile_first=not options.no_build) for architecture in wanted]


def build(architecture, programs):
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", 'source "$1"; build "${@:2}"', "package",
         ROOT / "tools/lib/common.sh", PRESETS[architecture], *programs], capture_output=True, text=True)
    if done.returncode:
        raise PackageError(f"the build failed:\n{done.stderr[-4000:]}")


def stage(architecture, compile_first=True):
    """Copies the programs of `architecture` to build/stage/ARCH/bin and returns build/stage/ARCH."""
    preset = PRESETS[architecture]
    if compile_first:
        build(architecture, PROGRAMS)
    folder = STAGE / architecture
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    for name in PROGRAMS:
        source = ROOT / "build" / preset / "bin" / name
        check_program(source, architecture)
        copy = folder / "bin" / name
        if source.is_symlink():
            copy.symlink_to(source.readlink())
            continue
        shutil.copyfile(source, copy)
        copy.chmod(0o755)
    return folder


def check_program(path, architecture):
    """Refuses a program that is missing, of another architecture or not static."""
    name = path.relative_to(ROOT)
    if not path.is_file():
        raise PackageError(f"{name} is missing; build it, or leave out --no-build")
    with path.open("rb") as file:
        head = file.read(4096)
    if head[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", head, 18)[0] != MACHINES[architecture]:
        raise PackageError(f"{name} is not a program for {architecture}")
    if INTERPRETER in segment_types(head):
        raise PackageError(f"{name} is not static; build it with LOCKSTEP_STATIC=ON and LOCKSTEP_HTTP=curl")


def segment_types(head):
    """The type of each segment of a 64-bit ELF file that begins with `head`."""
    offset, = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    return [struct.unpack_from("<I", head, offset + i * size)[0] for i in range(count)]
