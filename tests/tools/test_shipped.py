"""What is shipped is made of what it says."""

import re
import subprocess

import pytest
from conftest import ROOT

DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda each: each.stem)
def test_every_stage_of_an_image_begins_from_the_one_base_that_can_be_named_by_digest(dockerfile):
    text = dockerfile.read_text()
    stages = re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE)
    bases = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) - set(stages)
    assert "$BASE" in bases and bases <= {"$BASE", "scratch"}


@pytest.mark.parametrize("base", ["debian:bookworm-slim", "debian@sha256:12", ""])
def test_a_release_is_not_built_on_a_base_that_can_move(base):
    done = subprocess.run([ROOT / "tools/images", "--base", base], capture_output=True, text=True)
    assert done.returncode == 1
    assert "--base wants IMAGE@sha256:DIGEST" in done.stderr
