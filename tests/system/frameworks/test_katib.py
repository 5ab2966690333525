"""examples/sweep/katib.yaml by Katib's documented contract: what its webhooks want of an experiment,
how it puts values into a trial, how it asks a job whether it has ended. Katib itself is not here."""

import json
import re
import subprocess
import sys

import pytest
import yaml
from run import ROOT
from tls import binary

sys.path.append(str(ROOT / "tools/lib/cluster"))

import parts

SWEEP = ROOT / "examples/sweep"
EXPERIMENT = yaml.safe_load((SWEEP / "katib.yaml").read_text())
TEMPLATE = EXPERIMENT["spec"]["trialTemplate"]
SAMPLE = {"double": "0.0123", "int": "7"}


def trial(values, name="sweep-x7k2"):
    """The job as Katib makes it: values as text, its own name and namespace."""
    text = json.dumps(TEMPLATE["trialSpec"])
    for each in TEMPLATE["trialParameters"]:
        text = text.replace("${trialParameters.%s}" % each["name"], values[each["reference"]])
    job = json.loads(text)
    assert "metadata" not in job, "Katib sets it"
    job["metadata"] = {"name": name, "namespace": EXPERIMENT["metadata"]["namespace"]}
    return job


@pytest.fixture(scope="module")
def job():
    return trial({each["name"]: SAMPLE[each["parameterType"]]
                  for each in EXPERIMENT["spec"]["parameters"]})


def test_each_parameter_is_declared_used_and_in_the_search_space():
    declared = [each["name"] for each in TEMPLATE["trialParameters"]]
    used = re.findall(r"\$\{trialParameters\.(\w+)\}", json.dumps(TEMPLATE["trialSpec"]))
    assert sorted(declared) == sorted(set(used))
    space = {each["name"] for each in EXPERIMENT["spec"]["parameters"]}
    assert {each["reference"] for each in TEMPLATE["trialParameters"]} == space


def test_a_trial_is_a_valid_job_with_its_values(job):
    assert job["spec"]["args"] == ["--learning-rate=0.0123", "--warmup-steps=7"]
    done = subprocess.run([binary("lockstep"), "validate", "-", "--target", "cluster"],
                          input=json.dumps(job), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_primary_labels_select_one_pod_with_the_primary_container(job):
    whole = {**job, "metadata": {**job["metadata"], "uid": "11111111-1111-1111-1111-111111111111"}}
    done = subprocess.run([binary("lockstep-objects"), "10.96.0.7"], input=json.dumps(whole),
                          capture_output=True, text=True, check=True)
    primary = [each for each in json.loads(done.stdout)["items"] if each["kind"] == "Pod"
               and TEMPLATE["primaryPodLabels"].items() <= each["metadata"]["labels"].items()]
    [pod] = primary
    assert TEMPLATE["primaryContainerName"] in [
        each["name"] for each in pod["spec"]["containers"]]


@pytest.fixture(scope="module")
def verdict():
    """What gjson, which Katib asks, says of a job."""
    try:
        program = parts.build("katib", print) / "katib-verdict"
    except parts.BuildError as error:
        pytest.skip(f"no Go module gjson here: {error}")

    def ask(*conditions):
        job = {"status": {"conditions": [{"type": kind, "status": status, "reason": "Because"}
                                         for kind, status in conditions]} if conditions else {}}
        return subprocess.run(
            [program, TEMPLATE["failureCondition"], TEMPLATE["successCondition"]],
            input=json.dumps(job), capture_output=True, text=True, check=True).stdout.strip()
    return ask


@pytest.mark.parametrize(("conditions", "said"), [
    ([], "Running"),
    ([("PodsReady", "True"), ("Running", "True")], "Running"),
    ([("PodsReady", "False"), ("Suspended", "True")], "Running"),
    ([("Running", "False"), ("Complete", "True")], "Succeeded"),
    ([("Running", "False"), ("Failed", "True")], "Failed"),
    ([("Complete", "False"), ("Failed", "False"), ("Running", "True")], "Running"),
    ([("Complete", "False"), ("Failed", "True")], "Failed"),
])
def test_katib_derives_trial_state_from_job_conditions(verdict, conditions, said):
    assert verdict(*conditions) == said


def test_experiment_uses_condition_names_of_the_docs():
    names = [re.findall(r'type=="(\w+)"', TEMPLATE[each])
             for each in ("successCondition", "failureCondition")]
    assert names == [["Complete"], ["Failed"]]
    page = (ROOT / "docs/reference/events.md").read_text()
    assert "| `Complete` | `Succeeded` |" in page and "| `Failed` | `DeadlineExceeded` |" in page


def test_role_grants_only_trainingjob_verbs_and_pod_creation():
    role, binding = yaml.safe_load_all((SWEEP / "katib-rights.yaml").read_text())
    assert {(each["resources"][0], verb) for each in role["rules"] for verb in each["verbs"]} == {
        *(("trainingjobs", verb) for verb in ("get", "list", "watch", "create", "delete")),
        ("pods", "create")}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
