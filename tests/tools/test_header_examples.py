"""The examples in headers' comments compile against the headers, all in one file.

An example may leave out what its reader can guess: `...`, and lower-case variables that it does not
declare. Every type, function, member, field and argument that it names must be there.
"""

import json
import re
import shlex
import subprocess

import pytest
from paths import ROOT

FOLDERS = ("base", "core", "worker", "operator", "cli")
# No code, or declarations, which other tests compile as they are.
SKETCHES = {"base/fields.h", "base/rules.h", "base/text/enum_names.h", "cli/run/run_server.h", "worker/agent/logs/console.h",
            "worker/agent/metrics/families.h", "worker/trainer/cuda/device/gpu.h"}
# Functions of the reader's own program.
THEIRS = ("Answer|Begin|Call|Complain|Do|Fail|Flush|HoldGang|Listen|Log|NoneParked|Poll|Refuse|Replace|Say|Send|Show|Take|"
          "Tell|Warn|Watch")
# Headers that examples of other headers need.
ALSO = ("core/model/names.h", "core/model/parse.h", "core/validate/validate.h", "operator/gang/agent_requests.h")
LINE = re.compile(r"^// {3}(\S.*| {2,}\S.*)$")
CODE = re.compile(r"[;{}(]\s*(//.*)?$")
# What an example may leave to its reader. Clang looks at no expression in which one of these is.
LEFT_OUT = re.compile(rf"(?:undeclared identifier|unknown type name) '(?:[a-z]\w*|{THEIRS})'|"
                      r"invalid use of 'this'|'this' cannot|unexpected namespace name|"
                      r"call to non-static member function|invalid range expression|'std::cout'|no member named 'cout'")


def examples(path):
    """(number of the first line, lines) of each example: lines of a comment that are indented by 3."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        indented = LINE.match(line)
        if not indented:
            found.append(None)
        elif found and found[-1]:
            found[-1][1].append(indented[1])
        else:
            found.append((number, [indented[1]]))
    return [each for each in found if each and any(map(CODE.search, each[1]))]


def compilable(line):
    """A line with something in place of what is left out."""
    code = re.sub(r"//.*", "", line)
    if re.match(r"\s*\.\.\.\s*(\w.*)?$", code):
        return ""
    code = re.sub(r"\) \.\.\.\s*$", ") {}", code)
    code = re.sub(r"= \.\.\.", "= left_out", code)
    code = re.sub(r", \.\.\.(?=[,})])", "", code)
    code = re.sub(r"\{ ?\.\.\.;? ?\}|\{\.\.\.\}", "{}", code)
    return re.sub(r"\.\.\.", "left_out", code)


def namespace_of(text):
    found = re.search(r"^namespace (lockstep[\w:]*) \{", text, re.M)
    return found[1] if found else "lockstep"


def source(paths):
    """All examples as functions of one file, each in the namespace of its header."""
    includes, functions = [f'#include "{name}"' for name in ALSO], []
    for path in paths:
        name = path.relative_to(ROOT)
        for number, lines in examples(path):
            includes.append(f'#include "{name}"')
            body = "\n".join(map(compilable, lines))
            space = namespace_of(path.read_text())
            functions.append(f"namespace {space} {{ template <typename Any> auto Example{len(functions)}() {{\n"
                             f'#line {number} "{name}"\n{body}\n}} }}')
    return "\n".join([*dict.fromkeys(includes), *functions]) + "\n"


def includes_of_the_build():
    commands = json.loads((ROOT / "build/release/compile_commands.json").read_text())
    found = {}
    for command in commands:
        words = shlex.split(command["command"])
        found.update((words[i + 1], None) for i, word in enumerate(words) if word == "-isystem")
    return [word for folder in found for word in ("-isystem", folder)]


def compile_examples(text):
    """Clang's errors, less those about what examples may leave out."""
    done = subprocess.run(
        ["clang++-19", "-std=c++20", "-fsyntax-only", "-ferror-limit=0", "-fno-spell-checking", "-w", "-I", str(ROOT),
         *includes_of_the_build(), "-x", "c++", "-"], input=text, capture_output=True, text=True, cwd=ROOT)
    return [line for line in done.stderr.splitlines()
            if re.search(r": (?:fatal )?error: ", line) and not LEFT_OUT.search(line)]


@pytest.mark.slow  # one compilation of a minute on a busy core
def test_every_example_in_a_header_compiles_as_far_as_it_goes():
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.h"))
             if str(path.relative_to(ROOT)) not in SKETCHES]
    text = source(paths)
    assert text.count("auto Example") > 60
    assert not compile_examples(text)
