"""docs/guides/migration.md: what `lockstep convert` makes of each source is what stands behind it there."""

import re
import shlex
import subprocess

import pytest
from paths import ROOT
from tls import binary

PAGE = (ROOT / "docs/guides/migration.md").read_text()
PAIR = re.compile(r"^## From (?P<name>[^\n]*)\n\n```(?P<kind>\w+)\n(?P<before>.*?)```\n\n"
                  r"```yaml\n(?P<after>.*?)```\n", re.MULTILINE | re.DOTALL)
PAIRS = [match.groupdict() for match in PAIR.finditer(PAGE)]


def lockstep(*arguments, text=None):
    return subprocess.run([binary("lockstep"), *arguments], input=text, capture_output=True,
                          text=True, check=False)


def convert(pair):
    if pair["kind"] != "sh":
        return lockstep("convert", "-", text=pair["before"])
    program, *arguments = shlex.split(pair["before"])
    assert program == "lockstep"
    return lockstep(*arguments)


def test_migration_page_shows_an_example_for_each_launcher():
    assert [pair["name"] for pair in PAIRS] == [
        "SLURM", "mpirun", "horovodrun", "deepspeed", "MPIJob", "JAXJob", "TFJob", "RayJob"]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["name"])
def test_convert_writes_the_job_that_migration_page_shows(pair):
    converted = convert(pair)
    assert converted.returncode == 0, converted.stderr
    job = "".join(line for line in converted.stdout.splitlines(True) if not line.startswith("#"))
    assert job == pair["after"]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["name"])
def test_validate_accepts_converted_job_that_names_an_image(pair):
    job = convert(pair).stdout
    if "  image: " not in job:  # a command line and a script name none
        job = job.replace("\nspec:\n", "\nspec:\n  image: gpt:1\n")
    validated = lockstep("validate", "-", text=job)
    assert validated.returncode == 0, validated.stderr
