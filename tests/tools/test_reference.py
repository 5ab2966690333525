"""The reference pages have what the sources say: fields, messages, options, exit codes, events,
conditions and their reasons."""

import json
import pathlib
import re
import subprocess

import pytest
from tls import binary

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/reference"
WORD = re.compile(r'"([A-Z][a-z]\w+)"')
FRAMEWORKS = [row["name"] for row in json.loads((ROOT / "tools/lib/crd/core.json").read_text())["frameworks"]]


def calls(function, *folders):
    """The text of each call of a function in the C++ of these folders, up to its semicolon."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", *(f"{folder}/*.cc" for folder in folders)],
                           capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        yield from re.findall(rf"\b{function}\((.*?);", (ROOT / name).read_text(), re.DOTALL)


def named(page):
    """What a page has in backticks."""
    return set(re.findall(r"`([^`\n]+)`", (PAGES / page).read_text()))


def test_generated_blocks_are_as_the_sources_make_them():
    done = subprocess.run([ROOT / "tools/reference", "--check", "--bin", pathlib.Path(binary("lockstep")).parent],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def documented_variables():
    """Names on environment.md. `_SIZE` behind `HOROVOD_RANK` is `HOROVOD_SIZE`."""
    names = set()
    for line in (PAGES / "environment.md").read_text().splitlines():
        whole = ""
        for word in re.findall(r"[A-Z_][A-Za-z0-9_]+", line):
            if not word.startswith("_"):
                whole = word
                names.add(word)
            else:
                names |= {whole[:end.start()] + word for end in re.finditer("_", whole)}
    return names


@pytest.mark.parametrize("launch", ["PerProcess", "PerMachine"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_environment_page_has_every_variable_that_plan_shows(framework, launch):
    spec = {"numMachines": 2, "processesPerMachine": 2, "image": "i", "framework": framework, "launch": launch,
            "command": ["mpirun" if framework == "Mpi" else "python3", "train.py"],
            "checkpoint": {"path": "/checkpoints"}}
    job = {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "gpt"}, "spec": spec}
    done = subprocess.run([binary("lockstep"), "plan", "-", "-o", "json"], capture_output=True, text=True,
                          input=json.dumps(job), check=False)
    if launch == "PerMachine" and framework in ("TensorFlow", "Horovod"):
        assert done.returncode == 2
        return
    plan = json.loads(done.stdout)
    names = set(plan["environment"])
    for machine in plan["machines"]:
        for process in machine.get("processes", []):
            names |= set(process.get("environment", {}))
    known = documented_variables()
    stars = tuple(name for name in known if name.endswith("_"))  # `ACCELERATE_*`
    assert {name for name in names - known if not name.startswith(stars)} == set()
    assert len(names) > 10


def test_exit_codes_page_has_every_code():
    codes = set(re.findall(r"kExit\w+ = (\d+);", (ROOT / "core/exit_codes.h").read_text())) - {"128"}
    page = (PAGES / "exit-codes.md").read_text()
    assert {code for code in codes if not re.search(rf"^\| {code}\b", page, re.MULTILINE)} == set()
    assert len(codes) > 10


@pytest.mark.parametrize("function, least", [("AddEvent", 15), ("SetCondition", 15)])
def test_events_page_has_every_reason(function, least):
    words = {word for call in calls(function, "operator", "core") for word in WORD.findall(call)}
    assert words - named("events.md") == set()
    assert len(words) >= least


@pytest.mark.parametrize("module, least", [("lockstep.py", 10), ("lockstep_client/__init__.py", 30)])
def test_python_page_has_every_name_of_the_package(module, least):
    [names] = re.findall(r"^__all__ = \[(.*?)\]",
                         (ROOT / "worker/python" / module).read_text(), re.MULTILINE | re.DOTALL)
    words = set(re.findall(r'"(\w+)"', names))
    page = set(re.findall(r"`(?:lockstep\.)?(\w+)", (PAGES / "python.md").read_text()))
    assert words - page == set()
    assert len(words) >= least
