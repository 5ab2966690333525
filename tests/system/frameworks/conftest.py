"""Frameworks that are too large for every computer that runs the tests: `tools/deps --frameworks`."""

import os
import pathlib

import pytest
import yaml
from run import ROOT, Run

PROGRAMS = pathlib.Path(__file__).parent / "programs"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "lockstep"


@pytest.fixture(scope="session")
def python_with():
    """The Python that has a framework."""
    def find(framework):
        python = CACHE / "frameworks" / framework / "bin/python"
        if not python.exists():
            pytest.skip(f"no {framework} here: tools/deps --frameworks")
        return str(python)
    return find


@pytest.fixture
def example(tmp_path):
    """example(python, FILE, NAME, ARGUMENT...): a run of an example as it stands, but for its Python,
    where it keeps checkpoints, and these further arguments, in which FOLDER is a folder of its own; with
    `launcher`, under such a module of Python's on each machine; with `program`, of that one of ours."""
    def start(python, file, name, *arguments, launcher=None, variables=None, program=None):
        folder = tmp_path / name
        folder.mkdir()
        job = yaml.safe_load((ROOT / "examples" / file).read_text())
        spec = job["spec"]
        assert spec["command"][0] == "python3"
        words = [str(folder / "kept") if word.startswith("/tmp/") else
                 str(ROOT / word) if word.startswith("examples/") else word
                 for word in spec["command"][1:]]
        if program:
            words[0] = str(PROGRAMS / program)
        if launcher:
            words = ["-m", launcher, *words]
            spec["launch"] = "PerMachine"
        spec["command"] = [python, *words, *(word.replace("FOLDER", str(folder))
                                             for word in arguments)]
        if "checkpoint" in spec:
            spec["checkpoint"]["path"] = str(folder / "checkpoints")
        (folder / "job.yaml").write_text(yaml.safe_dump(job))
        return Run(folder, str(folder / "job.yaml"), variables=variables)
    return start


@pytest.fixture
def patient(tmp_path):
    """patient(FRAMEWORK, RANK, WORD...): a run of this command, 2 x 2, in which RANK fails and the
    others, who are asked to stop, have a minute in which to notice."""
    def start(framework, rank, *words):
        job = tmp_path / "job.yaml"
        job.write_text(yaml.safe_dump({
            "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "sum"},
            "spec": {"numMachines": 2, "processesPerMachine": 2, "framework": framework,
                     "command": list(words),
                     "failurePolicy": {"restartGracePeriod": "60s"}}}))
        return Run(tmp_path, str(job), variables={"FAIL": str(rank)})
    return start
