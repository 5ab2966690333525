"""The manual pages: whether roff's own checkers find them right, and what a reader sees."""

import re
import subprocess

import pytest
from paths import ROOT
from tls import binary

MAN = ROOT / "tools/lib/package/man"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Name -> path of each page."""
    folder = tmp_path_factory.mktemp("man")
    environment = {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run([binary("lockstep"), "man", folder], check=True, env=environment)
    (folder / "lockstep-operator.1").write_bytes(subprocess.check_output(
        [binary("lockstep-operator"), "--help-man"], env=environment))
    for page in MAN.glob("*.1"):
        text = page.read_text().replace("@DATE@", "2023-11-14").replace("@VERSION@", "1.0")
        (folder / page.name).write_text(text)
    return {path.stem: path for path in folder.iterdir()}


def read(page):
    """The page as a person reads it, in lines of 100 columns."""
    done = subprocess.run(["groff", "-man", "-Tascii", "-rLL=100n", "-P-cbou", page], check=True,
                          capture_output=True, text=True)
    return done.stdout


def section(page, title):
    return re.search(rf"^{title}\n(.*?)(?=^\S|\Z)", read(page), re.DOTALL | re.MULTILINE)[1]


def test_every_command_and_program_has_a_page(pages):
    help_text = subprocess.check_output([binary("lockstep"), "--help"], text=True)
    commands = re.findall(r"^  (\w+) {2,}", help_text[help_text.index("Subcommands:"):], re.MULTILINE)
    assert len(commands) > 15
    assert set(pages) == {"lockstep", "kubectl-lockstep", "lockstep-agent", "lockstep-operator",
                          "lockstep-pmix", "lockstep-s3", *(f"lockstep-{each}" for each in commands)}


def test_groff_and_mandoc_have_nothing_to_say(pages):
    for name, page in pages.items():
        if name == "kubectl-lockstep":
            assert page.read_text() == ".so man1/lockstep.1\n"
            continue
        groff = subprocess.run(["groff", "-man", "-ww", "-z", page], capture_output=True, text=True,
                               check=True)
        assert groff.stderr == "", name
        mandoc = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True,
                                text=True, check=False)
        assert (mandoc.returncode, mandoc.stdout) == (0, ""), name


def test_page_of_run_has_usage_options_exit_codes_and_related_pages(pages):
    run = pages["lockstep-run"]
    first = read(run).splitlines()[0]
    assert first.startswith("LOCKSTEP-RUN(1)")
    assert "2023-11-14" in read(run)
    assert section(run, "SYNOPSIS").split() == "lockstep run [OPTION]... [FILE] [-- COMMAND...]".split()
    options = section(run, "OPTIONS")
    assert re.search(r"-m, --machines INT\n", options) and "--report FILE" in options
    codes = re.findall(r"^ +(\d+|N) ", section(run, "EXIT STATUS"), re.MULTILINE)
    assert {"0", "N", "124", "129", "130", "143", "152", "158"} <= set(codes)
    assert "lockstep run --hosts a,b" in section(run, "EXAMPLES")
    assert "lockstep(1)" in section(run, "SEE ALSO")


def test_page_has_every_option_that_help_shows(pages):
    for name, program in [("lockstep-run", ["lockstep", "run"]), ("lockstep-list", ["lockstep", "list"]),
                          ("lockstep-bench", ["lockstep", "bench"]),
                          ("lockstep-operator", ["lockstep-operator"]),
                          ("lockstep-agent", ["lockstep-agent"])]:
        shown = subprocess.check_output([binary(program[0]), *program[1:], "--help"], text=True)
        options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", shown.split("Examples:")[0]))
        assert len(options) > 4
        assert options - set(re.findall(r"--[a-z][\w-]*", read(pages[name]))) == set(), name


def test_exit_codes_of_run_in_help_are_those_of_the_reference():
    """docs/reference/exit-codes.md lists a signal in each row."""
    page = (ROOT / "docs/reference/exit-codes.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (SIG\w+)", page, re.MULTILINE)
    shown = subprocess.check_output([binary("lockstep"), "run", "--help"], text=True)
    assert len(rows) > 5
    assert rows == sorted(re.findall(r"^  (\d+)  stopped by (SIG\w+)", shown, re.MULTILINE))


def test_folder_that_is_not_there_is_named(tmp_path):
    done = subprocess.run([binary("lockstep"), "man", tmp_path / "none"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and "none is not a folder" in done.stderr
