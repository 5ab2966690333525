"""The GitHub workflows: they are valid, and only call the tree's scripts."""

import os
import pathlib
import re
import subprocess

import pytest
import yaml
from paths import ROOT

FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
# What prepares a container before a script of the tree can run, and the key of a release.
OTHERS = {"apt-get", "git", "install", "printf", "rm", "ssh-keygen", "(umask"}
ACTIONS = {"actions/cache", "actions/checkout", "actions/deploy-pages", "actions/download-artifact",
           "actions/upload-artifact", "actions/upload-pages-artifact"}


def steps(path):
    jobs = yaml.safe_load(path.read_text())["jobs"]
    return [(name, step) for name, job in jobs.items() for step in job["steps"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_workflow_runs_only_scripts_of_the_tree_and_known_actions(path):
    scripts = set()
    for _, step in steps(path):
        if "uses" in step:
            name, _, version = step["uses"].partition("@")
            assert name in ACTIONS and version, step
        for line in step.get("run", "").splitlines():
            for command in re.split(r" && ", line):
                word = command.split()[0]
                if word not in OTHERS:
                    assert os.access(ROOT / word, os.X_OK), f"{word} is no script of the tree"
                    scripts.add(word)
    assert scripts, f"{path.name} calls no script"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_workflow_has_limits_of_rights_and_time_and_no_input_in_a_script(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 360 for job in workflow["jobs"].values())
    for _, step in steps(path):
        # GitHub pastes ${{ … }} into the script, where it could be code; an environment is text.
        assert "${{" not in step.get("run", ""), step


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_job_with_a_secret_or_a_right_to_write_the_repository_only_signs(path):
    for name, job in yaml.safe_load(path.read_text())["jobs"].items():
        trusted = job.get("permissions", {}).get("contents") == "write"
        if trusted:
            scripts = [line for step in job["steps"] for line in step.get("run", "").splitlines()
                       if line.startswith(("tools/", ".ci/"))]
            assert all(line.startswith("tools/release ") and line.endswith(" --from sign") for line in scripts)
        else:
            assert "secrets." not in str(job), name
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False, name


@pytest.mark.slow  # actionlint is a Go module
def test_actionlint_accepts_the_workflows():
    subprocess.run([ROOT / "tools/deps", "--release"], check=True)
    done = subprocess.run([CACHE / "lockstep/release/bin/actionlint", *FILES], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout
