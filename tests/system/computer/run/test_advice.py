"""Advice of errors, remarks and reasons, followed: it leads to a valid job or a command that works.

A test finds each piece in the source: "write ...", "use ..." and "set ..." in a string. Each must
have a row here, or in test_convert_advice.py if `lockstep convert` gives it.
"""

import os
import re
import subprocess

import pytest
import yaml
from paths import CHART, ROOT
from test_convert_advice import ADVICE as OF_CONVERT
from test_convert_advice import merged
from test_convert_corpus import lockstep
from tls import binary

FOLDERS = ["base", "cli", "core", "operator", "worker/agent"]
IMPERATIVE = re.compile(r"(?:^|[;:,(] |\b(?:or|and) |\bthem |\bfor [\w ]+ )(?:write|use|set) "
                        r"|(?:^|[;:,(] )(?:write|use|set)$|\. (?:Write|Use|Set) ")

JOB = {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "a"},
       "spec": {"image": "i", "command": ["true"]}}
TRAINER = {"command": None, "trainer": {"model": "micro", "data": ["/data/*.txt"]}}
TWO = {"numMachines": 2, "processesPerMachine": 2}


def spec(change):
    return merged(JOB, {"spec": change})


def template(pod):
    return spec({"template": {"spec": pod}})


def trainer(change, **others):
    return spec(merged(TRAINER, {"trainer": change, **others}))


def rule(change):
    return spec({"failurePolicy": {"rules": [change]}})


def without(key):
    return {name: value for name, value in JOB.items() if name != key}


VALUE_FROM = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
LIMITED = [{"name": "worker", "resources": {"limits": {"cpu": "2"}}}]

# (words of the advice, a job that gets it, the job that follows it). Of text: the file's own.
OF_VALIDATE = [
    ("write progress.from: Auto or Output",
     spec({"progress": {"from": "Reports", "patterns": ["at (?P<step>x)"]}}),
     spec({"progress": {"from": "Output", "patterns": ["at (?P<step>x)"]}})),
    ("write Auto, Reports or Output there",
     spec({"progress": {"from": "Never"}, "health": {"hangTimeout": "9s"}}),
     spec({"progress": {"from": "Reports"}, "health": {"hangTimeout": "9s"}})),
    ("write processesPerMachine, the processes of one machine", spec({"num_processes": 4}),
     spec({"processesPerMachine": 4})),
    ("write processesPerMachine", spec({"nproc_per_node": 4}), spec({"processesPerMachine": 4})),
    ("write numMachines", spec({"nnodes": 2}), spec({"numMachines": 2})),
    ("write a new id for each request", spec({"restartRequest": {"id": ""}}),
     spec({"restartRequest": {"id": "2026-11-29T10:00:00Z"}})),
    ("write it into spec.env", spec({"mixed_precision": "bf16"}),
     spec({"env": [{"name": "ACCELERATE_MIXED_PRECISION", "value": "bf16"}]})),
    ('is missing; write "', without("kind"), JOB),
    ("write the program itself, without ",
     spec({"command": ["accelerate", "launch", "t.py"], "launch": "PerMachine"}),
     spec({"command": ["python", "t.py"], "framework": "Accelerate"})),
    ("write -np ", spec({**TWO, "framework": "Mpi", "command": ["mpirun", "-np", "2", "a"]}),
     spec({**TWO, "framework": "Mpi", "command": ["mpirun", "-np", "4", "a"]})),
    ("for seconds write ", spec({"gracePeriod": 30}), spec({"gracePeriod": "30s"})),
    ("must be a whole number; write it without quotes", spec({"numMachines": "2"}),
     spec({"numMachines": 2})),
    ("must be a list; write [", spec({"command": "a"}), spec({"command": ["a"]})),
    ("has no value and counts as absent; remove the line, or write a value",
     yaml.safe_dump(JOB) + "  numMachines:\n", spec({"numMachines": 2})),
    ("this alias is inside the value that it names; write the value out",
     "kind: &k [*k]\n", JOB),
    (" is not supported; write the value without it",
     yaml.safe_dump(JOB) + "  numMachines: !count 2\n", yaml.safe_dump(JOB) + "  numMachines: 2\n"),
    ("the file is empty; write a TrainingJob", "\n", JOB),
    ("control characters are not allowed here; write them as escapes in double quotes",
     yaml.safe_dump(JOB) + "  env: [{name: A, value: a\x01b}]\n",
     yaml.safe_dump(JOB) + '  env: [{name: A, value: "a\\x01b"}]\n'),
    ("is missing; write a name", merged(JOB, {"metadata": {"name": ""}}), JOB),
    ("set launch: PerMachine, or remove the launcher", spec({"command": ["torchrun", "t.py"]}),
     spec({"command": ["torchrun", "t.py"], "launch": "PerMachine"})),
    ("is missing; write the command of each process", spec({"command": None}), JOB),
    ("write Isolated: each process of TensorFlow",
     spec({**TWO, "framework": "TensorFlow", "resourcesPerProcess": {"gpu": 1}}),
     spec({**TWO, "framework": "TensorFlow", "resourcesPerProcess": {"gpu": 1},
           "topology": {"gpuVisibility": "Isolated"}})),
    ("is missing; write where the claim is mounted", spec({"checkpoint": {"claim": "c"}}),
     spec({"checkpoint": {"claim": "c", "path": "/checkpoints"}})),
    ("is missing beside the checkpoint that resume names; write this job's own folder",
     spec({"checkpoint": {"resume": "/old/1"}}),
     spec({"checkpoint": {"resume": "/old/1", "path": "/checkpoints"}})),
    ("write as much as 4 times a machine's part", spec({"checkpoint": {"url": "s3://bucket"}}),
     spec({"checkpoint": {"url": "s3://bucket", "memory": {"size": "16Gi"}}})),
    ("matches nothing; write exitCodes, signals or stderr", rule({"action": "Fail"}),
     rule({"action": "Fail", "exitCodes": [3]})),
    ("matches nothing: no process ends with an exit code and by a signal; write two rules",
     rule({"action": "Fail", "exitCodes": [3], "signals": ["SIGSEGV"]}),
     spec({"failurePolicy": {"rules": [{"action": "Fail", "exitCodes": [3]},
                                       {"action": "Fail", "signals": ["SIGSEGV"]}]}})),
    ("a rule about a metric has no exitCodes, signals or stderr; write two rules",
     rule({"metric": "loss", "above": 10, "exitCodes": [3]}),
     spec({"failurePolicy": {"rules": [{"metric": "loss", "above": 10}, {"exitCodes": [3]}]}})),
    ("RestartFromEarlier does not work with spec.checkpoint.memory: write checkpoints to ",
     spec({"failurePolicy": {"rules": [{"metric": "loss", "above": 10, "action": "RestartFromEarlier"}]},
           "checkpoint": {"path": "/checkpoints", "memory": {"size": "1Gi"}}}),
     spec({"failurePolicy": {"rules": [{"metric": "loss", "above": 10, "action": "RestartFromEarlier"}]},
           "checkpoint": {"path": "/checkpoints"}})),
    ("write it as ", spec({"resourcesPerMachine": {"cpu": "4"}}),
     spec({"resourcesPerProcess": {"cpu": "4"}})),
    ("; write less, or raise ",
     spec({"sharedMemory": "2Gi", "resourcesPerProcess": {"memory": "1Gi"}}),
     spec({"sharedMemory": "1Gi", "resourcesPerProcess": {"memory": "1Gi"}})),
    ("write it as spec.gracePeriod", template({"terminationGracePeriodSeconds": 60}),
     spec({"gracePeriod": "60s"})),
    ("write it as spec.activeDeadlineSeconds", template({"activeDeadlineSeconds": 60}),
     spec({"activeDeadlineSeconds": 60})),
    ("has limits or requests in its worker container; write them as", template(
        {"containers": LIMITED}), spec({"resourcesPerProcess": {"cpu": "2"}})),
    ("; write a multiple of ", trainer({"globalBatchSize": 7}, **TWO),
     trainer({"globalBatchSize": 8}, **TWO)),
    ("or write spec.trainer.device: Cuda",
     trainer({"device": "Cpu"}, resourcesPerProcess={"gpu": 1}),
     trainer({"device": "Cuda"}, resourcesPerProcess={"gpu": 1})),
    ("or write modelShape", trainer({"model": "nano"}, resourcesPerProcess={"gpu": 1}),
     trainer({"model": "micro", "modelShape": {"layers": 2, "heads": 2, "width": 128, "vocabulary": 256}},
             resourcesPerProcess={"gpu": 1})),
    ("must be Auto or Gloo on CPUs; for GPUs write spec.resourcesPerProcess.gpu: 1",
     trainer({"backend": "Nccl"}), trainer({"backend": "Nccl"}, resourcesPerProcess={"gpu": 1})),
    ("is not a duration; write numbers with units", spec({"gracePeriod": "half a minute"}),
     spec({"gracePeriod": "30s"})),
    ("is not a quantity; write a number with an optional suffix", spec({"sharedMemory": "1 GB"}),
     spec({"sharedMemory": "1Gi"})),
]

# The same for `lockstep run`.
OF_RUN = [
    ("needs a cluster; write a value for `lockstep run`", spec({"env": [VALUE_FROM]}),
     spec({"env": [{"name": "A", "value": "b"}]})),
    ("needs a cluster; write the variables as spec.env",
     spec({"envFrom": [{"secretRef": {"name": "s"}}]}),
     spec({"env": [{"name": "A", "value": "b"}]})),
    ("a suspended job cannot run; write false, or remove the line",
     spec({"suspend": True}), spec({"suspend": False})),
]

# Reasons of an operator or an agent, which need what is not here: the job that follows one is valid.
OF_STATUS = [
    ("write spec.progress.from: Output",
     spec({"progress": {"from": "Output"}, "health": {"hangTimeout": "9s"}})),
    ("write a pattern in spec.progress.patterns",
     spec({"progress": {"from": "Output", "patterns": ["at (?P<step>x)"]}})),
    ("write mpi.start: Pmix for Open MPI 4 and 5, mpi.start: Pmi for MPICH",
     spec({"framework": "Mpi", "mpi": {"start": "Pmix"}})),
    ("mpi.start: Pmi for MPICH and Intel MPI", spec({"framework": "Mpi", "mpi": {"start": "Pmi"}})),
    ("write the program itself as the command, as in [python, train.py]",
     spec({"command": ["python", "train.py"]})),
    ("write processesPerMachine, and the program itself as the command",
     spec({"processesPerMachine": 2, "command": ["python", "train.py"]})),
    ("or write framework: None", spec({"framework": "None"})),
    ("set spec.resourcesPerProcess.memory, of cpu topology.policy: Required",
     spec({"resourcesPerProcess": {"memory": "1Gi", "cpu": 2}, "topology": {"policy": "Required"}})),
    ("add nodes, or set onePerNode: None", spec({"placement": {"onePerNode": "None"}})),
    ("set runAsUser in the securityContext of spec.template",
     template({"securityContext": {"runAsUser": 1000}})),
    ("set what is missing in spec.template",
     template({"securityContext": {"runAsNonRoot": True}})),
    ("spec.suspend is true; set it to false to continue", spec({"suspend": False})),
    ("the namespace's LimitRange bounds container worker: set ",
     spec({"resourcesPerProcess": {"cpu": 2, "memory": "1Gi"}})),
]

# (words, a command that gets it, the command that follows it, variables of both, of the first).
OF_COMMANDS = [
    ("is an option of torchrun; write -p 2", ["lockstep", "run", "--nproc_per_node", "2", "--", "true"],
     ["lockstep", "run", "-p", "2", "--", "true"], {}),
    ("and each would run the whole job: write `", ["lockstep", "run", "--", "true"],
     ["lockstep", "run", "-p", "2", "--", "true"],
     {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}),
]

# For a checkpoint folder of another job, in which DONE is a generation's.
OF_FOLDERS = "to continue from one of them write `checkpoint: {resume: PATH}` (or --resume PATH)"
WAYS = {"go on": ["--resume", "FOLDER/checkpoints/1-1", "--checkpoint", "FOLDER"],
        "begin anew": ["--resume", "Never", "--checkpoint", "FOLDER"],
        "another folder": ["--checkpoint", "FOLDER/another"]}

# (words, a value of the chart that they name).
OF_CHART = [("that is init container lockstep-install: set ", ["agent", "resources"]),
            ("the quota requires a request or limit of every container: set ", ["agent", "resources"])]

# Advice that no job follows, and why, or where a test follows it.
NOT_TRIED = {
    "write long arguments into a file": "the file is the program's",
    "write fewer, larger files": "the files are the program's",
    "or use smaller batches, fewer": "the batches are the program's",
    "Use it if a job hangs": "it describes a tool, and no test asks for one",
    "write ADDRESS:PORT, as": "an operator that starts needs a cluster",
    "write a port from 1 to 65535, or --ui": "the tests of the run's page give ports",
    "is not a time of RFC 3339; write it as in": "no field of a spec is a time",
    "Raise spec.resourcesPerProcess.memory, or use smaller batches": "the batches are the program's",
    "or use another --checkpoint-url": "a run that meets it needs an object store",
}


def text_of(job):
    return job if isinstance(job, str) else yaml.safe_dump(
        {**job, "spec": {key: value for key, value in job["spec"].items() if value is not None}})


def said(run):
    return re.sub(r"\s+", " ", run.stdout + run.stderr)


@pytest.mark.parametrize("words, job, followed", OF_VALIDATE)
def test_validate_accepts_the_job_that_follows_its_advice(words, job, followed):
    assert words.strip() in said(lockstep("validate", "-", text=text_of(job)))
    run = lockstep("validate", "-", text=text_of(followed))
    assert run.returncode == 0 and words.strip() not in said(run), said(run)


@pytest.mark.parametrize("words, job, followed", OF_RUN)
def test_run_starts_the_job_that_follows_its_advice(words, job, followed, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(text_of(job))
    run = lockstep("run", str(file))
    assert run.returncode != 0 and words in said(run), said(run)
    file.write_text(text_of(followed))
    run = lockstep("run", str(file))
    assert run.returncode == 0, said(run)


@pytest.mark.parametrize("_, followed", OF_STATUS)
def test_job_that_follows_a_reason_is_valid(_, followed):
    run = lockstep("validate", "-", text=text_of(followed))
    assert run.returncode == 0, said(run)


@pytest.mark.parametrize("words, command, followed, variables", OF_COMMANDS)
def test_command_that_follows_advice_works(words, command, followed, variables):
    def run(words, variables):
        return subprocess.run([binary(words[0]), *words[1:]], env={**os.environ, **variables},
                              capture_output=True, text=True, check=False, timeout=60)
    first = run(command, variables)
    assert first.returncode != 0 and words in said(first), said(first)
    second = run(followed, {})
    assert second.returncode == 0, said(second)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_job_with_another_jobs_checkpoints_runs_by_each_way_that_is_named(way, tmp_path):
    def run(name, *options):
        options = [word.replace("FOLDER", str(tmp_path)) for word in options]
        return lockstep("run", "--name", name, *options, "--", "true")
    assert run("first", "--checkpoint", "FOLDER").returncode == 0
    other = run("second", "--checkpoint", "FOLDER")
    assert other.returncode != 0 and OF_FOLDERS in said(other), said(other)
    followed = run("second", *way)
    assert followed.returncode == 0, said(followed)


@pytest.mark.parametrize("_, path", OF_CHART)
def test_chart_has_the_value_that_a_reason_names(_, path):
    value = yaml.safe_load((CHART / "values.yaml").read_text())
    for key in path:
        value = value[key]


def test_each_piece_of_advice_in_the_source_has_a_row():
    rows = [row[0] for row in [*OF_CONVERT, *OF_VALIDATE, *OF_RUN, *OF_STATUS, *OF_COMMANDS,
                            *OF_CHART]]
    rows += [OF_FOLDERS, *NOT_TRIED]
    pieces = []
    for folder in FOLDERS:
        for file in sorted({*(ROOT / folder).rglob("*.cc"), *(ROOT / folder).rglob("causes.h")}):
            code = re.sub(r"(?m)^\s*//.*$", "", file.read_text())
            code = re.sub(r'"\s*\n\s*"', "", code)
            pieces += [(str(file.relative_to(ROOT)), text.replace('\\"', '"'))
                       for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', code)
                       if IMPERATIVE.search(text)]
    assert len(pieces) > 100
    forgotten = [piece for piece in pieces
                 if not any(row in piece[1] or piece[1].strip(" .") in row for row in rows)]
    assert forgotten == []
    gone = [row for row in NOT_TRIED if not any(row in text for _, text in pieces)]
    assert gone == []
