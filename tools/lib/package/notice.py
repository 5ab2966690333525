"""Writes or checks a file with the licences of all code in the programs.

The list of projects is that of `tools/package sbom`, and the texts are their copyright files.
"""

import pathlib
import re

import licences
import linked
from errors import PackageError

SUMMARY = "write the licences of all code in the programs"
COMMON = pathlib.Path("/usr/share/common-licenses")
# Texts that a licence of licences.py needs and that Debian's copyright files only name.
NEEDED = {"Apache-2.0": "Apache-2.0", "GPL-3.0-or-later": "GPL-3", "LGPL-2.1-or-later": "LGPL-2.1"}
TEXTS = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|PATENTS)(\.\w+)?")  # of a Go module
RULE = "=" * 78
HEAD = """\
Lockstep
========

Lockstep is licensed under the Apache License, version 2.0 (LICENSE). Its programs also contain, or
are linked with, code of the projects below. The list follows from the linker's own list of files.

The GNU C library is linked into the static programs. Its licence, the LGPL, lets you link them with
another version of it: Lockstep's source, its build files and the command `cmake --preset release`
are all that this needs.
"""


def text(parts_of):
    """The notice for {program: its Parts}."""
    packages, users = {}, {}
    for program, parts in parts_of.items():
        for part in parts:
            packages.setdefault(part.package.source, set()).add(part.package)
            users.setdefault(part.package.source, set()).add(program)
    made = [HEAD, "\n".join(f"{source}: {licences.of(source)}; in {', '.join(sorted(users[source]))}"
                            for source in sorted(packages)) + "\n"]
    for source in sorted(packages):
        copyrights = dict.fromkeys(_copyright(package) for package in sorted(packages[source]))
        made.append(f"{RULE}\n{source} ({licences.of(source)})\n{RULE}\n\n" + "\n\n".join(copyrights))
    for name in sorted({NEEDED[licence] for source in packages
                        for licence in re.split(r" (?:WITH|AND|OR) ", licences.of(source))
                        if licence in NEEDED}):
        made.append(f"{RULE}\nThe text of {name}\n{RULE}\n\n{(COMMON / name).read_text().strip()}\n")
    return "\n".join(made)


def _copyright(package):
    try:
        if package.go:
            return "\n\n".join(each.read_text().strip() for each in sorted(pathlib.Path(package.copyright).iterdir())
                               if TEXTS.fullmatch(each.name)) + "\n"
        return pathlib.Path(package.copyright).read_text().strip() + "\n"
    except OSError as error:
        raise linked.Unexplained(f"{package.source} has no copyright file: {error}") from error


def add_arguments(parser):
    linked.add_arguments(parser)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--out", type=pathlib.Path, metavar="FILE", help="write them to FILE")
    mode.add_argument("--check", type=pathlib.Path, metavar="FILE",
                      help="end with an error if FILE has other text")


def run(options):
    made = text({program: linked.parts(options.build, program) for program in options.programs
                 if not (options.build / "bin" / program).is_symlink()})
    if options.out:
        options.out.write_text(made)
        print(options.out)
    elif not options.check.is_file() or options.check.read_text() != made:
        raise PackageError(f"{options.check} is not the notice of these programs; make it anew")
