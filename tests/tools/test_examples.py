"""The examples, and what clients other than kubectl make of the files that users read and of the CRD:
PyYAML reads YAML 1.1 (2e-3 is a text), and typed clients are generated from the schema.
"""

import re
import subprocess

import pytest
import yaml
from paths import ROOT
from tls import binary

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
CRD = yaml.load((ROOT / "crds/lockstep.dev_trainingjobs.yaml").read_text(), LOADER)
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict,
         "array": list}
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
SHELVES = ("docs/guides", "docs/operate", "docs/reference", "docs/internals", "docs/adr")
PAGES = [ROOT / "README.md", *(page for shelf in SHELVES for page in sorted((ROOT / shelf).glob("*.md"))),
         *sorted((ROOT / "examples").rglob("*.md"))]


def misfits(schema, value, path):
    """Where a value is not of its field's type, or stands in no field."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield f"{path}: {value!r} is no quantity"
        return
    kind = schema["type"]
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{path}: {value!r} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if kind == "array":
        for index, item in enumerate(value):
            yield from misfits(schema["items"], item, f"{path}[{index}]")
    if kind == "object":
        open_ended = "properties" not in schema and "additionalProperties" not in schema
        for name, each in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if inner is not None:
                yield from misfits(inner, each, f"{path}.{name}")
            elif not open_ended:
                yield f"{path}.{name}: no such field"


def jobs_in(text):
    """The TrainingJobs among YAML documents; a page shows some of their spec alone."""
    fields = SCHEMA["properties"]["spec"]["properties"]
    for document in yaml.load_all(text, LOADER):
        if not isinstance(document, dict) or not isinstance(document.get("spec"), dict):
            continue
        alone = "kind" not in document and document["spec"].keys() & fields.keys()
        if document.get("kind") == "TrainingJob" or alone:
            yield document


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(ROOT)))
def test_python_client_can_create_each_example(file):
    for job in jobs_in(file.read_text()):
        assert not list(misfits(SCHEMA, job, "job"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(ROOT)))
def test_job_of_each_example_is_valid_and_its_program_is_there(file):
    for job in jobs_in(file.read_text()):
        run = subprocess.run([binary("lockstep"), "validate", "--quiet", "-"], input=yaml.safe_dump(job),
                             capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        programs = [word for word in job["spec"].get("command", []) if word.startswith("examples/")]
        for program in programs:
            compile((ROOT / program).read_text(), program, "exec")


def test_readme_names_each_example():
    """Of examples/README.md, which names a folder with a README of its own as a whole."""
    named = set(re.findall(r"\]\(([^)#]+)\)", (ROOT / "examples/README.md").read_text()))
    files = {str(file.relative_to(ROOT / "examples")) for file in (ROOT / "examples").rglob("*")
             if file.suffix in (".py", ".yaml", ".ipynb", ".sbatch", ".xml")}
    lost = {file for file in files - named
            if not {file.partition("/")[0], f"{file.partition('/')[0]}/README.md"} & named}
    assert not lost


def test_python_client_can_create_jobs_of_the_pages():
    wrong, seen = [], 0
    for page in PAGES:
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for job in jobs_in(block):
                seen += 1
                wrong += [f"{page.name}: {each}" for each in misfits(SCHEMA, job, "job")]
    assert not wrong
    assert seen >= 10


def test_every_field_of_the_crd_has_one_type():
    """But for quantities, and for what a pod template has of the API server."""
    def untyped(schema, path):
        if "x-kubernetes-int-or-string" in schema or path == "job.spec.template":
            return
        several = schema.keys() & {"anyOf", "oneOf", "x-kubernetes-preserve-unknown-fields"}
        if "type" not in schema or several:
            yield path
        for name, each in schema.get("properties", {}).items():
            yield from untyped(each, f"{path}.{name}")
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                yield from untyped(schema[key], f"{path}[]")

    assert not list(untyped(SCHEMA, "job"))
