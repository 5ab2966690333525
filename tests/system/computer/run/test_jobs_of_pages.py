"""Jobs in YAML on the pages of docs/ and in README.md: `lockstep validate` accepts each."""

import json
import re
import subprocess

import pytest
import yaml
from paths import ROOT
from tls import binary

BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIELDS = set(yaml.safe_load((ROOT / "crds/lockstep.dev_trainingjobs.yaml").read_text())
             ["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md"))]


def jobs(page):
    """The jobs of a page. A part of a job, which begins with `spec:`, gets a name and a command."""
    for block in BLOCK.findall(page.read_text()):
        for document in yaml.safe_load_all(block):
            if not isinstance(document, dict) or not isinstance(document.get("spec"), dict):
                continue
            if document.get("kind") == "TrainingJob":
                yield document
            elif "kind" not in document and document["spec"].keys() <= FIELDS:
                spec = {"image": "train:1", "command": ["python3", "train.py"], **document["spec"]}
                yield {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
                       "metadata": {"name": "part", **document.get("metadata", {})}, "spec": spec}


WITH_JOBS = [page for page in PAGES if any(jobs(page))]


def test_pages_have_jobs():
    assert {"README.md", "how-to.md", "elastic.md", "trainingjob.md"} <= {page.name for page in WITH_JOBS}
    assert len(list(jobs(ROOT / "docs/guides/how-to.md"))) >= 10


@pytest.mark.parametrize("page", WITH_JOBS, ids=lambda page: page.stem)
def test_validate_accepts_each_job_of_page(page):
    for job in jobs(page):
        complete = "image" in job["spec"] or "trainer" in job["spec"]
        done = subprocess.run([binary("lockstep"), "validate", "-", "--target", "cluster" if complete else "local"],
                              input=json.dumps(job), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{yaml.dump(job)}"
