"""Which projects' code is in a program of a build folder.

Scanners look for records of packages, and a static C++ program has none. The linker knows: its command
runs again with --trace, which names each file that it takes. Ninja knows the headers of each object. A
program in Go names its modules itself.
"""

import dataclasses
import functools
import gzip
import json
import os
import pathlib
import re
import subprocess

from errors import PackageError

PATIENCE = 300  # seconds for one command
# Headers of constants and structs of the kernel's interface; they put no code into a program.
NO_CODE = {"linux"}
GO_MARK = b"\xff Go buildinf:"  # stands in every program that Go links
# Of tools/deps --build, if it has installed one.
GO = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lockstep/go/bin/go"


@dataclasses.dataclass(frozen=True, order=True)
class Package:
    """A Debian package with its source, a project that tools/deps builds from source, or a Go module."""

    source: str
    source_version: str
    name: str = ""  # of the Debian package; "" if it is built from source
    version: str = ""
    architecture: str = ""
    copyright: str = ""  # the file with its copyright; a Go module's folder
    go: bool = False  # a module, or Go's own library with the source "go"


@dataclasses.dataclass(frozen=True, order=True)
class Part:
    package: Package
    how: str  # STATIC_LINK, DYNAMIC_LINK or, for headers alone, CONTAINS


def add_arguments(parser):
    """The options of the commands that look into programs."""
    parser.add_argument("--build", type=pathlib.Path, required=True, metavar="DIR",
                        help="the build folder, such as build/release")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")


class Unexplained(PackageError):
    """A file that belongs to no known package, or a link that cannot be repeated."""


def parts(build, program):
    """The Parts of `program`, sorted by source and package."""
    build = pathlib.Path(build).resolve()
    if (build / "bin" / program).is_file() and GO_MARK in (build / "bin" / program).read_bytes():
        return sorted(Part(package, "STATIC_LINK") for package in _modules(build / "bin" / program, _root(build)))
    libraries, own = _linked_files(build, program)
    files = {**{path: "CONTAINS" for path in [*_headers(build, own), *_bundled(build, own)]},
             **{path: "DYNAMIC_LINK" if ".so" in path.name else "STATIC_LINK" for path in libraries}}
    strongest = {}
    for path, package in _packages(tuple(sorted(files))).items():
        if package.source not in NO_CODE:
            strongest.setdefault(package, set()).add(files[path])
    order = ("STATIC_LINK", "DYNAMIC_LINK", "CONTAINS")
    return sorted(Part(package, min(how, key=order.index)) for package, how in strongest.items())


def _modules(file, root):
    """The Packages of a program in Go, as the linker has written them into it."""
    go = str(GO) if GO.exists() else "go"
    said = _output(go, "version", "-m", str(file), folder=root)
    version = re.search(r": go(\S+)$", said.splitlines()[0])[1]
    found = re.findall(r"^\tdep\t(\S+)\t(\S+)", said, re.MULTILINE)
    if not found or "\t=>\t" in said:
        raise Unexplained(f"{file} names no modules, or one that stands for another")
    # They lie in Go's cache, because the program was built of them.
    told = _output(go, "mod", "download", "-json", *(f"{name}@{number}" for name, number in found),
                   folder=root / "worker/s3")
    folders, at = {}, 0
    while told[at:].strip():
        each, at = json.JSONDecoder().raw_decode(told, at + len(told[at:]) - len(told[at:].lstrip()))
        folders[each["Path"], each["Version"]] = each["Dir"]
    library = _output(go, "env", "GOROOT", folder=root).strip()
    return [Package("go", version, copyright=library, go=True),
            *(Package(name, number, copyright=folders[name, number], go=True) for name, number in found)]


def _root(build):
    """The source tree of a build folder."""
    return pathlib.Path(re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$",
                                  (build / "CMakeCache.txt").read_text(), re.MULTILINE)[1])


def _output(*command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise Unexplained(f"{' '.join(command[:4])} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def _linked_files(build, program):
    """(files of others, objects of ours, as _key names them) that the linker takes."""
    target = f"bin/{program}"
    if not (build / target).is_file():
        raise Unexplained(f"{build / target} is not built")
    line = _output("ninja", "-n", "-t", "commands", "-s", target, folder=build).strip().splitlines()[-1]
    command = re.search(rf"(?:^|&& )([^&]* -o {re.escape(target)} [^&]*)", line)
    if not command:
        raise Unexplained(f"no link of {program} in: {line[:300]}")
    traced = command[1].replace(f" -o {target} ", " -o /dev/null -Wl,--trace ")
    libraries, own = set(), set()
    for said in _output("bash", "-c", traced, folder=build).splitlines():
        name, _, member = said.strip().removesuffix(")").partition("(")
        if name.startswith("/") and not _is_below(pathlib.Path(name), build):
            libraries.add(pathlib.Path(name).resolve())
        else:
            own.add((pathlib.PurePath(name).name, member) if member else os.path.normpath(name))
    if not libraries or not own:
        raise Unexplained(f"the linker named no files for {program}")
    return libraries, own


def _is_below(path, folder):
    return folder in path.resolve().parents


def _headers(build, own):
    """Headers outside of the tree that the objects in `own` include."""
    root = _root(build)
    found, wanted = set(), False
    for line in _output("ninja", "-n", "-t", "deps", folder=build).splitlines():
        if line and not line.startswith(" "):
            wanted = _key(pathlib.PurePath(line.partition(":")[0])) in own
        elif line and wanted:
            found.add(line.strip())
    absolute = {pathlib.Path(os.path.normpath(build / name)) for name in found}
    return {path.resolve() for path in absolute if not _is_below(path, root)}


def _bundled(build, own):
    """Files of others in the page that is embedded in a program (tools/lib/page/bundle)."""
    record = build / "cli/page/page.others"
    if not record.is_file() or not any(each[0] == "liblockstep_cli.a" for each in own):
        return set()
    return {pathlib.Path(line) for line in record.read_text().splitlines()}


def _key(object_file):
    """As the linker names it: base/CMakeFiles/lockstep_base.dir/unity/base.cc.o is the member base.cc.o
    of liblockstep_base.a, and a program's own main.cc.o is a file by itself."""
    target = next((each.removesuffix(".dir") for each in object_file.parts if each.endswith(".dir")), "")
    if target.startswith("lockstep_"):
        return f"lib{target}.a", object_file.name
    return os.path.normpath(object_file)


def _packages(paths):
    """{path: Package} of files."""
    foreign = {path: each for path in paths if (each := _foreign(path))}
    owners = _owners(tuple(path for path in paths if path not in foreign))
    abroad = _owners(tuple(sorted({name for _, name in foreign.values()})))
    found = {}
    for path in paths:
        if path in foreign:
            sysroot, name = foreign[path]
            package = _unpacked(sysroot, abroad[name]) if name in abroad else None
        else:
            package = _debian(owners[path]) if path in owners else _built(path)
        if package is None:
            raise Unexplained(f"{path} is in a program, and is of no Debian package and of no recipe "
                              f"of tools/deps")
        found[path] = package
    return found


def packages(paths):
    """The Packages of files, each once, sorted."""
    return sorted(set(_packages(tuple(sorted(paths))).values()))


def _owners(paths):
    """{path: binary package}, as far as dpkg knows. Its lists can name a file below /lib or /usr/lib."""
    if not paths:
        return {}
    names = {str(path): path for path in paths}
    names.update({str(path).removeprefix("/usr"): path for path in paths if path.is_relative_to("/usr/lib")})
    done = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True,
                          timeout=PATIENCE, env={**os.environ, "LC_ALL": "C"})
    owners = {}
    for line in done.stdout.splitlines():
        owner, _, name = line.partition(": /")
        if f"/{name}" in names and not owner.startswith("diversion "):
            owners[names[f"/{name}"]] = owner.partition(",")[0]
    return owners


def _foreign(path):
    """(folder, name here) of a file of another architecture that `tools/deps --arm64` unpacked."""
    sysroot = next((each for each in path.parents if each.name == "sysroot"), None)
    if not sysroot:
        return None
    name = pathlib.Path("/", path.relative_to(sysroot))
    here = pathlib.Path(str(name).replace("aarch64-linux-gnu", "x86_64-linux-gnu")
                        .replace("ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2"))
    # A header that only the other architecture has is of the package that has its folder here.
    return sysroot, here if here.exists() else here.parent


@functools.cache
def _unpacked(sysroot, name):
    """A package without dpkg's record: its changelog names source and version."""
    name = name.partition(":")[0]
    folder = sysroot / "usr/share/doc" / name
    try:
        with gzip.open(folder / "changelog.Debian.gz", "rt") as file:
            source, version = re.match(r"(\S+) \((\S+)\) ", file.readline()).groups()
    except (OSError, AttributeError) as error:
        raise Unexplained(f"{folder} has no changelog that names a version: {error}") from error
    return Package(source, version, name, version, "arm64", str(folder / "copyright"))


@functools.cache
def _debian(name):
    form = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}"
    package, version, architecture, source, source_version = _output(
        "dpkg-query", "-W", "-f", form, name, folder="/").split("\t")
    text = pathlib.Path("/usr/share/doc", package, "copyright").resolve()
    return Package(source, source_version, package, version, architecture, str(text))


@functools.cache
def _prefix(folder):
    """The project in a folder NAME-HASH that a recipe of tools/deps installed into. Its file `record`
    names Debian's source package; without one, a file for CMake or pkg-config names the version."""
    if (folder / "record").is_file():
        said = dict(re.findall(r"^(Package|Version): (\S+)$", (folder / "record").read_text(), re.MULTILINE))
        if len(said) != 2:
            raise Unexplained(f"{folder / 'record'} does not name a package and its version")
        return Package(said["Package"], said["Version"], said["Package"], said["Version"], "source",
                       str(folder / "copyright"))
    name = re.sub(r"-[0-9a-f]{12}$", "", folder.name)
    for path in sorted(folder.glob("lib/cmake/*/*onfigVersion.cmake")):
        version = re.search(r'PACKAGE_VERSION "([^"]+)"', path.read_text())
        if version:
            break
    else:
        versions = (re.search(r"^Version: (\S+)", path.read_text(), re.MULTILINE)
                    for path in sorted(folder.glob("lib/pkgconfig/*.pc")))
        version = next((each for each in versions if each), None)
    if not version:
        raise Unexplained(f"{folder} has neither a CMake version file nor a .pc file with a version")
    own = folder / "copyright"
    kept = pathlib.Path(__file__).parent / "copyright" / name
    return Package(name, version[1], copyright=str(own if own.is_file() else kept))


def _built(path):
    folder = next((each for each in path.parents if re.search(r"-[0-9a-f]{12}$", each.name)), None)
    return _prefix(folder) if folder else None
