"""worker/python/lockstep_client/spec.py and status.py: a TrainingJob's fields as dataclasses."""

import keyword
import re
import textwrap

from crd.schema import OPAQUE

HEAD = '''"""{title}

Made by tools/crd from tools/lib/crd. Change it there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import {names}

from lockstep_client.records import Record, of
'''
# Names that read better in Python. The command line has the same two.
SHORT = {"spec.numMachines": "machines", "spec.processesPerMachine": "processes"}
# Classes whose names the fields' names don't give.
CLASSES = {
    "spec": "JobFields", "status": "Status",
    "spec.imagePullSecrets[]": "ImagePullSecret",
    "spec.topology.map[]": "CpuMap",
    "spec.failurePolicy.rules[]": "FailureRule",
    "spec.checkpoint.memory": "MemoryCheckpoints",
    "spec.trainer.parallel": "TrainerParallel",
    "spec.progress": "ProgressSource",
    "spec.roles[]": "Role",
    "status.conditions[]": "Condition",
    "status.machines": "MachineCounts",
    "status.machineStatuses[]": "MachineStatus",
    "status.machineStatuses[].usage": "MachineUsage",
    "status.attempts[]": "Attempt",
    "status.history[]": "PastGeneration",
    "status.ledger.open": "OpenLedger",
    "status.preflight.slow[]": "SlowMachine",
    "status.progress.metrics[]": "Metric",
    "status.restart": "LastRestart",
    "status.code": "SyncedCode",
    "status.suspectNodes[]": "SuspectNode",
    "status.elastic.silent[]": "SilentAttempt",
}
METADATA = [
    ("name", "str", "Name of the job."),
    ("namespace", "Optional[str]", "Namespace on a cluster. Absent: that of the kubeconfig."),
    ("labels", "Optional[Dict[str, str]]", "Labels of the job."),
    ("annotations", "Optional[Dict[str, str]]", "Annotations of the job."),
]


def python(section, schema):
    """The text of the module of `section`, "spec" or "status"."""
    classes = []
    _class(section, schema["properties"][section], section == "spec", classes)
    names = [name for name, _ in classes]
    assert len(set(names)) == len(names), f"two classes have one name: {sorted(names)}"
    body = "".join(f"\n\n{text}" for _, text in classes)
    used = [each for each in ("Any", "ClassVar", "Dict", "List", "Literal", "Optional", "Union")
            if re.search(rf"\b{each}\b", body)]
    title = {"spec": "What a job asks for: the fields of a TrainingJob's spec.",
             "status": "What has become of a job: the fields of a TrainingJob's status."}[section]
    everything = "".join(f'    "{name}",\n' for name in sorted(names))
    return (HEAD.format(title=title, names=", ".join(used))
            + f"\n__all__ = [\n{everything}]\n" + body)


def _class(path, schema, checked, classes):
    """Appends the class of an object, after those that it uses."""
    fields = []
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        inner = f"{path}.{name}"
        kind = _type(inner, field, checked, classes)
        needed = name in required
        fields.append((not needed, SHORT.get(inner, _snake(name)), name,
                       kind if needed else f"Optional[{kind}]", _limits(inner, field, checked),
                       _meaning(field)))
    fields.sort(key=lambda each: each[0])  # what has no default comes first
    lines = ["@dataclass(repr=False)", f"class {_name(path)}(Record):",
             *_doc(schema["description"], 4)]
    if not checked:
        lines += ["", "    _checked: ClassVar[bool] = False"]
    if path == "spec":
        for name, kind, meaning in METADATA:
            default = "" if name == "name" else " = None"
            lines += ["", f"    {name}: {kind}{default}", *_doc(meaning, 4)]
    for optional, name, json, kind, limits, meaning in fields:
        default = "default=None, " if optional else ""
        lines += ["", *_wrapped(name, kind, f'field({default}metadata=of("{json}"{limits}))'),
                  *_doc(meaning, 4)]
    classes.append((_name(path), "\n".join(lines) + "\n"))


def _wrapped(name, kind, value):
    line = f"    {name}: {kind} = {value}"
    if len(line) <= 100:
        return [line]
    head = [f"    {name}: {kind} = field("]
    if len(head[0]) > 100:  # many choices
        before, choices, after = re.fullmatch(r"(.*Literal\[)(.*?)(\]+)", kind).groups()
        head = [f"    {name}: {before}", *textwrap.wrap(choices, 100, initial_indent=" " * 8,
                                                        subsequent_indent=" " * 8),
                f"    {after} = field("]
    return [*head, f"        {value[len('field('):-1]}", "    )"]


def _name(path):
    last = path.rpartition(".")[2]
    return CLASSES.get(path, last[0].upper() + last[1:])


def _snake(name):
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return f"{snake}_" if keyword.iskeyword(snake) else snake


def _type(path, field, checked, classes):
    if path == "spec.env":
        return "Dict[str, Union[str, Dict[str, Any]]]"
    if path in OPAQUE:
        return "List[Dict[str, Any]]" if field["type"] == "array" else "Dict[str, Any]"
    if field.get("x-kubernetes-int-or-string"):
        return "Union[int, str]"
    if "enum" in field:
        return f"Literal[{', '.join(repr(each) for each in field['enum'])}]".replace("'", '"')
    kind = field["type"]
    if kind == "array":
        items = {"description": field.get("description", ""), **field["items"]}
        return f"List[{_type(path + '[]', items, checked, classes)}]"
    if "additionalProperties" in field:
        return f"Dict[str, {_type(path + '{}', field['additionalProperties'], checked, classes)}]"
    if kind == "object":
        _class(path, field, checked, classes)
        return _name(path)
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}[kind]


def _limits(path, field, checked):
    if path == "spec.env":
        return ', codec="env"'
    bounds = field.get("items", field)
    if not checked or "properties" in bounds:
        return ""
    least = "above" if bounds.get("exclusiveMinimum") else "minimum"
    found = {least: bounds.get("minimum"), "maximum": bounds.get("maximum")}
    return "".join(f", {name}={value}" for name, value in found.items() if value is not None)


def _meaning(field):
    text = field.get("description", "")
    default = field.get("default")
    if default is None or isinstance(default, dict):
        return text
    return f"{text} Default: {str(default).lower() if isinstance(default, bool) else default}."


def _doc(text, indent):
    if not text:
        return []
    text = text.replace("\\", "\\\\")
    margin = " " * indent
    lines = textwrap.wrap(f'"""{text}"""', 100 - indent, break_long_words=False,
                          break_on_hyphens=False)
    return [margin + line for line in lines]
