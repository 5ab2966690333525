"""lockstep.Job: what its fields take, what it says about mistakes, YAML and back, and its types."""

import ast
import os
import pathlib
import subprocess
import sys

import lockstep
import pytest
import yaml
from paths import CRDS, EXAMPLES, MODULES, ROOT

COMMAND = ["python3", "train.py"]


def problems(build):
    with pytest.raises(lockstep.JobInvalid) as caught:
        build()
    return caught.value.problems


def test_a_job_becomes_a_training_job_with_the_spelling_of_yaml():
    job = lockstep.Job(
        "gpt", machines=2, processes=4, image="train:1", command=COMMAND, env={"EPOCHS": "3"},
        labels={"team": "a"}, failure_policy=lockstep.FailurePolicy(
            max_restarts=5, rules=[lockstep.FailureRule(exit_codes=[3], action="Fail")]))
    assert job.manifest() == {
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "gpt", "labels": {"team": "a"}},
        "spec": {"numMachines": 2, "processesPerMachine": 4, "image": "train:1",
                 "command": COMMAND, "env": [{"name": "EPOCHS", "value": "3"}],
                 "failurePolicy": {"maxRestarts": 5,
                                   "rules": [{"exitCodes": [3], "action": "Fail"}]}}}


def test_every_example_comes_back_from_yaml_as_it_was():
    jobs = [each for file in sorted(EXAMPLES.rglob("*.yaml"))
            for each in yaml.safe_load_all(file.read_text())
            if isinstance(each, dict) and each.get("kind") == "TrainingJob"]
    assert len(jobs) > 10
    for each in jobs:
        job = lockstep.Job.from_yaml(yaml.safe_dump(each))
        assert job.manifest()["spec"] == each["spec"]
        assert lockstep.Job.from_yaml(job.to_yaml()) == job


def test_every_field_of_the_crd_is_a_field_of_the_classes():
    crd = yaml.safe_load((CRDS / "lockstep.dev_trainingjobs.yaml").read_text())
    known = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    names = {each.metadata.get("json") for each in lockstep.Job.__dataclass_fields__.values()}
    assert set(known["properties"]) == names - {None}
    lifted = {each.metadata["json"] for each in lockstep.FailurePolicy.__dataclass_fields__.values()}
    assert set(known["properties"]["failurePolicy"]["properties"]) == lifted


@pytest.mark.parametrize("fields, problem", [
    ({"launch": "Perprocess"}, "launch: must be one of PerProcess, PerMachine, not 'Perprocess'; did "
                               'you mean "PerProcess"?'),
    ({"machines": 0}, "machines: must be 1 to 4096, not 0"),
    ({"machines": True}, "machines: must be int, not bool True"),
    ({"machines": "2"}, "machines: must be int, not str '2'"),
    ({"command": "python3 train.py"}, "command: must be a list, not str 'python3 train.py'"),
    ({"command": ["a", 1]}, "command[1]: must be str, not int 1"),
    ({"env": {"A": 1}}, "env['A']: must be str or Dict, not int 1"),
    ({"shared_memory": 1.5}, "shared_memory: must be int or str, not float 1.5"),
    ({"failure_policy": {"maxRestarts": 1}},
     "failure_policy: must be a lockstep.FailurePolicy, not dict {'maxRestarts': 1}"),
])
def test_a_wrong_value_is_named_when_the_job_is_made(fields, problem):
    found = problems(lambda: lockstep.Job("gpt", **fields))
    assert [each.replace("typing.Dict[str, typing.Any]", "Dict") for each in found] == [problem]


def test_a_wrong_name_is_refused_when_it_is_given_and_when_it_is_set():
    with pytest.raises(TypeError, match="machnes"):
        lockstep.Job("gpt", machnes=2)
    job = lockstep.Job("gpt")
    with pytest.raises(AttributeError, match='no field \'machnes\'; did you mean "machines"'):
        job.machnes = 2


def test_a_value_that_was_set_later_is_judged_before_it_is_used():
    job = lockstep.Job("gpt", health=lockstep.Health())
    job.health.hang_timeout = 5
    assert problems(job.manifest) == ["health.hang_timeout: must be str, not int 5"]


def test_what_is_no_job_and_no_function_is_named():
    with pytest.raises(TypeError, match="takes a lockstep.Job, not function; lockstep.train()"):
        lockstep.run(test_what_is_no_job_and_no_function_is_named)
    with pytest.raises(TypeError, match="takes a lockstep.Job, not str"):
        lockstep.submit("job.yaml")
    with pytest.raises(TypeError, match="takes a function, not Job"):
        lockstep.train(lockstep.Job("gpt"))


def test_a_field_of_a_newer_operator_is_left_out_on_request():
    manifest = lockstep.Job("gpt", health=lockstep.Health(hang_timeout="5m")).manifest()
    manifest["spec"]["newField"] = 1
    manifest["spec"]["health"]["newTimeout"] = "1m"
    assert len(problems(lambda: lockstep.Job.from_manifest(manifest))) == 2
    job = lockstep.Job.from_manifest(manifest, strict=False)
    assert job == lockstep.Job("gpt", health=lockstep.Health(hang_timeout="5m"))


@pytest.mark.parametrize("text, problem", [
    ("a: [", "no YAML"), ("", "one job, not 0 documents"), ("a: 1\n---\nb: 1", "not 2 documents"),
    ("{apiVersion: v1, kind: Pod}", "must be a TrainingJob of lockstep.dev/v1alpha1, not Pod of v1"),
    ("[]", "must be a mapping, not list"),
])
def test_a_text_that_is_no_job_is_refused(text, problem):
    [found] = problems(lambda: lockstep.Job.from_yaml(text))
    assert problem in found


def test_every_mistake_of_a_file_is_named_with_its_place():
    spec = {"numMachine": 2, "env": [{"name": "A", "value": "1"}, {"name": "A"}],
            "failurePolicy": {"maxRestart": 1, "rules": [{"exitCodes": [300]}]}}
    text = yaml.safe_dump({"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
                           "metadata": {"name": "gpt"}, "spec": spec})
    assert sorted(problems(lambda: lockstep.Job.from_yaml(text))) == [
        "spec.env[1]: A is set twice",
        'spec.failurePolicy.maxRestart: unknown field; did you mean "maxRestarts"?',
        "spec.failurePolicy.rules[0].exit_codes[0]: must be 1 to 255, not 300",
        'spec.numMachine: unknown field; did you mean "numMachines"?']


def test_a_variable_with_a_source_keeps_it():
    source = {"secretKeyRef": {"name": "keys", "key": "hub"}}
    job = lockstep.Job("gpt", env={"A": "1", "TOKEN": source})
    assert job.manifest()["spec"]["env"] == [{"name": "A", "value": "1"},
                                             {"name": "TOKEN", "valueFrom": source}]
    assert lockstep.Job.from_manifest(job.manifest()) == job


def test_validate_says_what_lockstep_validate_says(tmp_path):
    job = lockstep.Job("gpt", machines=2, command=COMMAND, checkpoint=lockstep.Checkpoint(
        resume="/ckpt"))
    file = tmp_path / "job.yaml"
    file.write_text(job.to_yaml())
    said = subprocess.run(["lockstep", "validate", file], capture_output=True, text=True, timeout=60)
    found = problems(job.validate)
    assert said.returncode == 2 and found
    words = said.stdout + said.stderr
    assert all(f"error: {each}" in words for each in found)
    assert words.count("error: ") == len(found)


def test_an_image_is_needed_on_a_cluster_only():
    job = lockstep.Job("gpt", command=COMMAND)
    assert job.validate("local") == []
    assert problems(job.validate) == [
        "spec.image: is missing; name the image that holds the command"]


def test_a_missing_program_is_named_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(lockstep.MissingProgram, match="add the folder of its programs to PATH"):
        lockstep.Job("gpt", command=COMMAND).validate()


@pytest.mark.parametrize("module, call, package", [
    ("yaml", "lockstep.Job('gpt').to_yaml()", "PyYAML"),
    ("cloudpickle", "lockstep.train(print)", "cloudpickle"),
    ("kubernetes", "lockstep.attach('gpt')", "kubernetes"),
])
def test_a_missing_package_is_named(module, call, package):
    program = f"""\
import sys
sys.modules[{module!r}] = None
import lockstep
try:
    {call}
except lockstep.MissingPackage as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(MODULES)}, timeout=60)
    assert f"needs the package {package}: pip install {package}" in done.stdout, done.stderr


def test_a_cluster_that_is_not_known_is_said_with_what_to_do(tmp_path):
    program = """\
import lockstep
try:
    lockstep.attach("gpt")
except lockstep.ClusterError as error:
    print(error)
"""
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(MODULES)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env=variables, timeout=60)
    assert done.stdout.startswith("no cluster is known: "), done.stderr
    assert done.stdout.endswith("name a kubeconfig, or set KUBECONFIG\n")


def test_a_rank_that_imports_lockstep_loads_nothing_of_the_client():
    program = """\
import sys
before = set(sys.modules)
import lockstep
lockstep.report(step=1)
new = set(sys.modules) - before
print([name for name in new if name.startswith("lockstep_client") or name == "dataclasses"])
lockstep.Job
print("lockstep_client.job" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(MODULES)}, timeout=60)
    assert done.stdout == "[]\nTrue\n", done.stderr


def test_names_of_the_client_are_completed_and_a_job_shows_what_it_sets():
    assert {"Job", "train", "report", "JobFailed"} <= set(dir(lockstep))
    job = lockstep.Job("gpt", machines=2, health=lockstep.Health(hang_timeout="5m"))
    assert repr(job) == "Job(name='gpt', machines=2, health=Health(hang_timeout='5m'))"


def test_the_single_file_says_what_the_client_is_if_it_is_copied_alone(tmp_path):
    (tmp_path / "lockstep.py").write_bytes((MODULES / "lockstep.py").read_bytes())
    program = "import lockstep; lockstep.report(step=1); lockstep.Job"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}, timeout=60)
    assert "the package lockstep_client, which runs jobs, is not installed" in done.stderr


def mypy(folder, *arguments):
    """Its output, with the types as an installed package has them."""
    environment = {**os.environ, "MYPYPATH": str(MODULES), "MYPY_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", *arguments], cwd=folder,
                          env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


TYPO = """\
import lockstep
job = lockstep.Job("gpt", machnes=2)
other = lockstep.Job("gpt", framework="Pytorch", failure_policy=lockstep.FailurePolicy(max_restart=1))
status = lockstep.run(job).wait(timeout=5)
print(status.last_failure and status.last_failure.ranks)
lockstep.report(step="one")
def fit(a: int) -> float: return a / 2
reveal_type(lockstep.train(fit, args=[1]))
"""


def test_mypy_finds_the_client_sound_and_a_users_typos(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(TYPO)
    code, said = mypy(tmp_path, "-p", "lockstep_client", "-m", "lockstep_call", "-m", "program")
    assert code == 1
    wrong = [line for line in said.splitlines() if "error" in line]
    assert all(line.startswith(("program.py", "Found")) for line in wrong), said
    for line, words in ((2, '"machnes"'), (3, "framework"), (3, '"max_restart"'), (5, '"ranks"'),
                        (6, '"step"')):
        assert any(each.startswith(f"program.py:{line}:") and words in each for each in wrong), said
    assert 'Revealed type is "float"' in said.replace("builtins.", "")


def declared(file):
    """The public functions and classes of a file with their arguments, results and bases."""
    found = {}
    for node in ast.parse(pathlib.Path(file).read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found[node.name] = (ast.unparse(node.args), node.returns and ast.unparse(node.returns))
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found[node.name] = [ast.unparse(base) for base in node.bases]
        elif isinstance(node, ast.Assign) and node.targets[0].id in ("__all__", "PathLike"):
            found[node.targets[0].id] = ast.unparse(node.value)
    return found


def test_the_stubs_of_the_single_file_are_those_of_the_module():
    module = declared(MODULES / "lockstep.py")
    assert module == declared(MODULES / "lockstep-stubs/__init__.pyi")
    assert len(module) > 10


def test_the_sources_are_those_of_python_3_9():
    files = sorted(pathlib.Path(MODULES, "lockstep_client").glob("*.py"))
    assert len(files) > 5
    for file in files:
        ast.parse(file.read_text(), str(file.relative_to(ROOT)), feature_version=(3, 9))
