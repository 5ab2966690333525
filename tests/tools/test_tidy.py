"""tools/lib/tidy.py: every C++ file is looked at, and again only when something about it changed."""

import json
import subprocess
import sys

import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "tools/lib"))

import tidy as tidy_module

TIDY = ROOT / "tools/lib/tidy.py"
CLEAN = '#include "base/a.h"\n\nint Twice(int number) { return 2 * Number(number); }\n'
MOVED = (
    "#include <string>\n#include <utility>\n"
    "std::string Last(std::string a) {\n  std::string b = std::move(a);\n  return a + b;\n}\n"
)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / ".clang-tidy").write_text(
        "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\n")
    (tmp_path / ".clangd").write_text((ROOT / ".clangd").read_text())
    (tmp_path / "base/a.h").write_text("inline int Number(int number) { return number; }\n")
    (tmp_path / "base/a.cc").write_text(CLEAN)
    command = {"directory": str(tmp_path), "file": str(tmp_path / "base/a.cc"),
               "command": f"clang++-19 -std=c++20 -I{tmp_path} -c {tmp_path}/base/a.cc"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([command]))
    return tmp_path


def tidy(tree, *files):
    """The exit code, what was found, and the closing line."""
    done = subprocess.run([sys.executable, TIDY, ".", tree / "cache", *files], cwd=tree, text=True,
                          capture_output=True)
    *found, closing = done.stdout.splitlines()
    return done.returncode, found, closing


def test_tidy_rechecks_clean_file_when_included_header_changes(tree):
    files = ["base/a.cc", "base/a.h"]
    assert tidy(tree, *files) == (0, [], "clang-tidy: 2 files looked at, 0 unchanged, 0 not built here, 0 bad")
    assert tidy(tree, *files) == (0, [], "clang-tidy: 0 files looked at, 2 unchanged, 0 not built here, 0 bad")
    (tree / "base/a.h").write_text("inline int Number(int number) { return number + 1; }\n")
    assert tidy(tree, *files) == (0, [], "clang-tidy: 2 files looked at, 0 unchanged, 0 not built here, 0 bad")


def keys(monkeypatch, folder, *files):
    """What tidy.py knows each file by: as long as it stays the same, the file is not looked at again."""
    monkeypatch.chdir(folder)
    tidy_module.read.cache_clear()
    return [tidy_module.key(file) for file in files]


def test_comments_header_guards_and_folders_do_not_change_what_a_file_is_known_by(tmp_path, monkeypatch):
    (tmp_path / "base/text").mkdir(parents=True)
    number = "inline int Number(int number) { return number; }"
    for guard, folder, comment in (("BASE_A_H_", "base", "// What it is.\n"), ("BASE_TEXT_A_H_", "base/text", "")):
        (tmp_path / folder / "a.h").write_text(
            f"{comment}#ifndef LOCKSTEP_{guard}\n#define LOCKSTEP_{guard}\n\n{number}  {comment}\n"
            f"#endif  // LOCKSTEP_{guard}\n")
        (tmp_path / folder / "a.cc").write_text(CLEAN.replace("base/", folder + "/"))
    before = keys(monkeypatch, tmp_path, "base/a.h", "base/a.cc")
    assert keys(monkeypatch, tmp_path, "base/text/a.h", "base/text/a.cc") == before
    (tmp_path / "base/text/a.h").write_text(number.replace("number;", "-number;"))
    header, source = keys(monkeypatch, tmp_path, "base/text/a.h", "base/text/a.cc")
    assert header != before[0] and source != before[1]


@pytest.mark.parametrize("before, after", [
    ("int* p = 0;  // NOLINT", "int* p = 0;"),
    ('const char* url = "http://a";', 'const char* url = "http://b";'),
    ("int big = 1'000;  // it's", "int big = 2'000;  // it's"),
    ("char quote = '\"'; int a;  // \"", "char quote = '\"'; int b;  // \""),
    ('const char* raw = R"(// a)";', 'const char* raw = R"(// b)";'),
    ("int b = f(/*a=*/1);", "int b = f(/*b=*/1);"),
])
def test_code_strings_and_comments_that_checks_read_change_what_a_file_is_known_by(before, after):
    assert tidy_module.essence(before) != tidy_module.essence(after)
    assert tidy_module.essence(f"// a word\n\n{before}\n") == tidy_module.essence(before)


def test_tidy_reports_line_and_check_of_unfixed_finding_on_every_run(tree):
    (tree / "base/a.h").write_text("inline int* Nothing() { return 0; }\n")
    for _ in range(2):
        code, found, _ = tidy(tree, "base/a.h")
        assert code == 1
        assert found == ["base/a.h:1: use nullptr [modernize-use-nullptr]"]


def test_deep_option_runs_path_sensitive_checks(tree):
    (tree / "base/a.cc").write_text(MOVED)
    code, found, closing = tidy(tree, "--deep", "base/a.cc")
    assert code == 1
    assert any("base/a.cc:5:" in line and "[bugprone-use-after-move" in line for line in found)
    assert closing == "clang-tidy: 1 files looked at, 0 unchanged, 0 not built here, 1 bad"


def test_tidy_skips_and_counts_file_that_is_not_built(tree):
    (tree / "base/b.cc").write_text("#include <no/such/header.h>\n")
    closing = "clang-tidy: 1 files looked at, 0 unchanged, 1 not built here, 0 bad"
    assert tidy(tree, "base/a.cc", "base/b.cc") == (0, [], closing)


def test_tidy_finds_fault_in_one_of_many_files_of_a_folder(tree):
    """They are looked at joined, and the one with the fault by itself. Names may stand twice."""
    commands = json.loads((tree / "compile_commands.json").read_text())
    for name in ("b", "c", "d", "e"):
        (tree / f"base/{name}.h").write_text(
            f"#ifndef {name}_H\n#define {name}_H\nint* Get{name}();\n#endif\n")
        nothing = "0" if name == "d" else "nullptr"
        (tree / f"base/{name}.cc").write_text(
            f'#include "base/{name}.h"\n\nint* Get{name}() {{ return {nothing}; }}\n')
        commands.append({**commands[0], "file": str(tree / f"base/{name}.cc"),
                         "command": commands[0]["command"].replace("a.cc", f"{name}.cc")})
    (tree / "compile_commands.json").write_text(json.dumps(commands))
    files = [f"base/{name}.{suffix}" for name in "bcde" for suffix in ("cc", "h")]
    assert tidy(tree, *files) == (
        1, ["base/d.cc:3: use nullptr [modernize-use-nullptr]"],
        "clang-tidy: 8 files looked at, 0 unchanged, 0 not built here, 1 bad")
    (tree / "base/c.cc").write_text("// NOLINTNEXTLINE\n")
    assert tidy(tree, *files)[1] == ["base/d.cc:3: use nullptr [modernize-use-nullptr]"]
    (tree / "base/c.cc").write_text("static int Kept() { return 1; }\nint c = Kept();\n")
    (tree / "base/d.cc").write_text("static int Kept() { return 2; }\nint d = Kept();\n")
    assert tidy(tree, *files)[0] == 0


def test_tidy_reports_line_of_file_that_does_not_compile(tree):
    (tree / "base/a.cc").write_text("int Twice(\n")
    code, found, _ = tidy(tree, "base/a.cc")
    assert code == 1 and any("base/a.cc:2" in line for line in found)
