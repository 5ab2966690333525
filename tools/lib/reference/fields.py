"""Tables of a TrainingJob's fields, made of the CRD's schema and core's tables."""

import json
import re
import sys

from crd.core import CORE
from crd.schema import OPAQUE

# What `lockstep run` refuses. It ignores the fields of CORE["clusterOnly"].
REFUSED = ("suspend", "envFrom", "env[].valueFrom")
# Where a page explains more than a cell can.
EXPLAINED = {
    "numMachines": "#changes", "processesPerMachine": "#ranks", "command": "#variables",
    "args": "#variables", "env": "#variables", "launch": "#launchers",
    "framework": "../guides/frameworks.md", "mpi.start": "../guides/mpi.md",
    "prestart": "../guides/prestart.md", "trainer": "#spectrainer", "template": "#template",
    "image": "../operate/operator.md", "topology.bind": "../operate/numa.md",
    "topology.policy": "#binding", "topology.gpuVisibility": "environment.md#gpus-of-its-own",
    "scheduling.gang": "../guides/queues.md#all-nodes-or-none",
    "network.hostnames": "#without-host-names", "elastic": "#elastic-size",
    "spareMachines": "#spares", "failurePolicy.rules": "#rules",
    "failurePolicy.machineLostAfter": "../operate/operations.md#when-a-node-dies",
    "failurePolicy.stragglers": "#stragglers", "failurePolicy.nodeHealth": "#sick-nodes",
    "checkpoint": "../guides/checkpoints.md",
    "checkpoint.claim": "../guides/checkpoints.md#the-volume", "successPolicy": "#success",
    "restartRequest": "#restart-on-request", "roles": "#roles",
    "health.startTimeout": "#start-timeout", "health.hangTimeout": "#hangs",
    "preflight": "#preflight", "progress": "../guides/progress.md",
    "managedBy": "../guides/queues.md#on-another-cluster",
    "trainer.device": "../internals/trainer.md#on-gpus",
    "trainer.recovery": "../internals/trainer.md#in-place",
    "trainer.parallel.pipeline": "../internals/trainer.md#pipelines",
    "trainer.parallel.tensor": "../internals/trainer.md#tensor-parallelism",
    "trainer.validationData": "../internals/trainer.md#validation",
    "trainer.measureScaling": "../internals/trainer.md#scaling-efficiency",
    "trainer.memoryEvery": "../internals/trainer.md#checkpoints",
}
IN_STATUS = {
    "conditions": "events.md", "elastic": "#elastic", "ledger": "#ledger",
    "history[].lostSteps": "#lost-steps", "prestart": "../guides/prestart.md",
    "queue": "../guides/queues.md", "verdict.exitCode": "exit-codes.md",
    "preflight": "trainingjob.md#preflight",
    "elastic.withoutQuota": "../guides/queues.md#elastic-size-and-quota",
    "elastic.silent": "trainingjob.md#elastic-size", "epoch": "../internals/architecture.md",
    "state": "events.md#states", "restart": "trainingjob.md#restart-on-request",
    "code": "../guides/sync.md", "suspectNodes": "#suspectnodes",
}
BETWEEN = re.compile(r"^must (?:be (0s) \(off\) or )?lie between (\S+) and (\S+)$")
AT_MOST = re.compile(r"^must be at most (\d\S*)$")


class Table:
    """Makes the table of those fields of a section that a block names; `trainer.*` are its members."""

    def __init__(self, section, schema):
        self._section = section
        self._fields = schema["properties"]
        self._left = set(self._fields)
        self._spec = section == "spec"

    def __call__(self, words, before):
        head = ["field", "type", "default", "run", "meaning"] if self._spec else ["field", "type",
                                                                                 "meaning"]
        rows = [head, ["---"] * len(head)]
        for word in words:
            name, members, _ = word.partition(".*")
            if name not in self._fields:
                sys.exit(f"{self._section}.{name} is in a block, but no field")
            if not members:
                self._left.discard(name)
            rows += self._rows(name, self._fields[name], alone=not members)
        return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"

    def expect_all(self):
        if self._left:
            sys.exit(f"{self._section}: no block names {', '.join(sorted(self._left))}")

    def _rows(self, path, field, alone):
        inner = field.get("items", field)
        shown = [] if f"{self._section}.{path}" in OPAQUE or path == "trainer" and alone else [
            (path + ("[]" if inner is not field else "") + "." + name, each)
            for name, each in inner.get("properties", {}).items()]
        if alone:
            yield self._row(path, field)
        for name, each in shown:
            yield from self._rows(name, each, alone=True)

    def _row(self, path, field):
        link = (EXPLAINED if self._spec else IN_STATUS).get(path)
        name = f"[`{path}`]({link})" if link else f"`{path}`"
        cells = [name, _type(field)]
        if self._spec:
            cells += [_default(field), _run(path)]
        return [*cells, _meaning(field)]


def _run(path):
    if path in REFUSED:
        return "✕"
    ignored = any(path == each or path.startswith((each + ".", each + "[")) for each in CORE["clusterOnly"])
    return "○" if ignored else "●"


def _type(field):
    if field.get("x-kubernetes-int-or-string"):
        return " ".join(["quantity", *_limits(field)])
    kind = field.get("type", "any")
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    if "enum" in field:
        return "enum"
    if any("is not a duration" in rule["message"] for rule in field.get("x-kubernetes-validations", [])):
        kind = "duration"
    return " ".join([kind, *_limits(field)])


def _limits(field):
    for rule in field.get("x-kubernetes-validations", []):
        if said := BETWEEN.match(rule["message"]):
            off = "0s, " if said[1] else ""
            return [f"{off}{said[2]} to {said[3]}"]
        if said := AT_MOST.match(rule["message"]):
            return [f"up to {said[1]}"]
    low, high = field.get("minimum"), field.get("maximum")
    if high in (2147483647, 1000000000000):
        high = None
    if low is not None and high is not None:
        return [f"{'above ' if field.get('exclusiveMinimum') else ''}{low} to {high}"]
    if field.get("exclusiveMinimum"):
        return [f"above {low}"]
    return [f"from {low}"] if low not in (None, 0, -1) else []


def _default(field):
    default = field.get("default")
    # An object's default repeats those of its fields.
    return "" if default is None or isinstance(default, dict) else f"`{_plain(default)}`"


def _plain(value):
    return value if isinstance(value, str) else json.dumps(value)


def _meaning(field):
    """The description, then choices that it does not name."""
    text = field.get("description", "").replace("|", "\\|").replace("\n", " ")
    inner = field.get("items", field)
    choices = inner.get("enum", [])
    named = [each for each in choices if re.search(rf"(?<![\w-]){each}(?![\w-])", text)]
    if choices and len(named) < len(choices):
        text = f"{text} {'Any of' if inner is not field else 'One of'} {', '.join(choices)}.".strip()
    for each in choices:
        text = re.sub(rf"(?<![\w`-]){each}(?![\w`-])", f"`{each}`", text)
    return text
