"""Sources of tests/cli/convert/corpus, converted. Before a source stand:

    world: MACHINES x PROCESSES    with gpus: N of each process, or none, which is the default
    command: WORDS                 as a shell takes them; likewise cpu: and launch:
    field: NAME=VALUE              of spec; env: NAME=VALUE, no-env: NAME of its variables
    look: TEXT                     of a remark that begins with LOOK AT THIS; there are no others
    says: TEXT                     of a remark; silent: TEXT stands in none
    error: TEXT                    the source is refused
"""

import shlex
import subprocess

import pytest
import yaml
from launches import remarks
from paths import ROOT
from tls import binary

CORPUS = ROOT / "tests/cli/convert/corpus"
OF_SRUN = "a program that joins by MPI needs framework: Mpi"  # whatever srun starts


def cases():
    for file in sorted(CORPUS.glob("*.txt")):
        for part in file.read_text().split("\n=== ")[1:]:
            name, _, rest = part.partition("\n")
            wanted, _, source = rest.partition("\n\n")
            pairs = [line.split(": ", 1) for line in wanted.splitlines()]
            yield pytest.param(pairs, source.strip() + "\n", id=f"{file.stem}: {name}")


def lockstep(*arguments, text=None):
    return subprocess.run([binary("lockstep"), *arguments], input=text, capture_output=True,
                          text=True, check=False)


def convert(source):
    if source.startswith("$ "):
        return lockstep("convert", "--", *shlex.split(source[2:]))
    return lockstep("convert", "-", text=source)


def with_image(text):
    return text if "  image: " in text else text.replace("\nspec:\n", "\nspec:\n  image: i\n")


def facts(spec):
    """What the job says under the names of the corpus."""
    each = spec.get("resourcesPerProcess", {})
    return {"world": f"{spec.get('numMachines', 1)} x {spec.get('processesPerMachine', 1)}",
            "gpus": str(each.get("gpu", "none")), "cpu": str(each.get("cpu")),
            "launch": spec.get("launch"), "command": shlex.join(spec["command"])}


@pytest.mark.parametrize("wanted, source", cases())
def test_source_becomes_the_job_that_it_means(wanted, source):
    run = convert(source)
    values = {key: [value for other, value in wanted if other == key] for key, _ in wanted}
    if "error" in values:
        assert run.returncode == 2 and all(text in run.stderr for text in values["error"]), run
        return
    assert run.returncode == 0, run.stderr
    validated = lockstep("validate", "-", text=with_image(run.stdout))
    assert validated.returncode == 0, validated.stderr + run.stdout

    spec = yaml.safe_load(run.stdout)["spec"]
    said = remarks(run.stdout)
    looks = [line for line in said if line.startswith("# LOOK AT THIS: ") and OF_SRUN not in line]
    found = facts(spec)
    env = {entry["name"]: entry.get("value") for entry in spec.get("env", [])}
    for key in ("world", "gpus", "cpu", "launch", "command"):
        for value in values.get(key, ["none"] if key == "gpus" else []):
            assert found[key] == value, run.stdout
    for name, _, value in (text.partition("=") for text in values.get("field", [])):
        assert str(spec[name]) == value, run.stdout
    for name, _, value in (text.partition("=") for text in values.get("env", [])):
        assert env[name] == value, run.stdout
    assert not set(values.get("no-env", [])) & set(env), run.stdout
    for text in values.get("look", []):
        assert any(text in line for line in looks), run.stdout
    wanted_looks = values.get("look", [])
    assert all(any(text in line for text in wanted_looks) for line in looks), looks
    assert all(any(text in line for line in said) for text in values.get("says", [])), run.stdout
    assert not any(text in line for line in said for text in values.get("silent", [])), run.stdout
