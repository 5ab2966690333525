"""The CustomResourceDefinition, its text, and the policy with the rules that aren't in it."""

import copy
import json

import yaml

from crd import rules, spec, status
from crd.core import CORE, fill, without_blanks
from crd.names import JOB_NAME
from crd.schema import ONLY_NEW, RULES, rule

# All other fields can change only while the job is suspended and has no pods.
ALWAYS_MUTABLE = ["suspend", "numMachines", "failurePolicy", "health", "activeDeadlineSeconds",
                  "ttlSecondsAfterFinished", "spareMachines", "restartRequest"]
NEVER_MUTABLE = ["processesPerMachine"]  # its own rule says so

_COLUMNS = [
    ("State", "string", ".status.state", 0),
    ("Ready", "string", ".status.ready", 0),
    ("Processes", "integer", ".status.processes", 0),
    ("Restarts", "integer", ".status.restarts.total", 0),
    ("Progress", "string", ".status.progressText", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Generation", "string", ".status.gangGeneration", 1),
    ("Spares", "integer", ".status.machines.spares", 1),
    ("Reason", "string", ".status.reason", 1),
]


def _mutability(fields):
    """One rule for all fields, whose message names those that changed."""
    waiting = [name for name in fields if name not in ALWAYS_MUTABLE + NEVER_MUTABLE]
    same = " && ".join(f"self.spec.?{name} == oldSelf.spec.?{name}" for name in waiting)
    suspended = ("(oldSelf.spec.suspend && has(oldSelf.status) && has(oldSelf.status.state) && "
                 "oldSelf.status.state == 'Suspended')")
    changed = " + ".join(f"(self.spec.?{name} == oldSelf.spec.?{name} ? '' : ' spec.{name}')"
                         for name in waiting)
    when = "can change only while the job is suspended and has no pods (status.state: Suspended)"
    return rule(f"({same}) || {suspended}", f"suspend first: this {when}", ".spec",
                by=f"'suspend first:' + {changed} + ' {when}'")


def schema(pod):
    """Of the whole job, with all rules."""
    fields = fill(spec.spec(pod), CORE["spec"], "spec")
    name = rule(f"self.metadata.name.matches(r'^{JOB_NAME}$')",
                "metadata.name must be at most 40 lower-case letters, digits and dashes, begin "
                "with a letter and end with a letter or digit (a DNS-1035 label)")
    coordinator = {**rule("!self.metadata.name.endsWith('-coordinator')",
                          "metadata.name must not end in -coordinator: the Services of another "
                          "job have such names"), ONLY_NEW: True}
    return without_blanks({
        "description": "TrainingJob runs one distributed training job as one unit.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": fields,
            "status": fill(status.status(), CORE["status"], "status"),
        },
        RULES: [name, coordinator, _mutability(fields["properties"])],
    })


def documents(whole):
    """Of the job's schema: the CustomResourceDefinition, and the policy with its binding."""
    rest = _without_empty(copy.deepcopy(whole))
    policy = rules.documents(rest["properties"]["spec"], rest.pop(RULES))
    return _definition(rest), policy


def _without_empty(schema):
    """Without `properties: {}`: an API server drops it, and kubectl would see a change at each apply."""
    if isinstance(schema, list):
        return [_without_empty(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_empty(each) for key, each in schema.items() if (key, each) != ("properties", {})}


def _definition(schema):
    columns = [{"name": column, "type": kind, "jsonPath": path, **({"priority": 1} if wide else {})}
               for column, kind, path, wide in _COLUMNS]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "trainingjobs.lockstep.dev"},
        "spec": {
            "group": "lockstep.dev",
            "names": {"kind": "TrainingJob", "listKind": "TrainingJobList",
                      "plural": "trainingjobs", "singular": "trainingjob", "shortNames": ["tj"],
                      "categories": ["all"]},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "additionalPrinterColumns": columns,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.numMachines",
                              "statusReplicasPath": ".status.replicas",
                              "labelSelectorPath": ".status.selector"},
                },
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Lists indented, nothing aliased, texts in one line."""

    def ignore_aliases(self, data):
        return True


class _Line(dict):
    """A mapping that stands in one line."""


def _one_line(dumper, data):
    return dumper.represent_scalar("tag:lockstep.dev,2026:line", json.dumps(data, sort_keys=True))


_Dumper.add_representer(_Line, _one_line)

_HEADER = """\
# Made by tools/crd from tools/lib/crd. Change it there. The pod template is the API server's own.
# Each of its fields is on one line.
"""


def text(crd):
    """YAML; what is the API server's own stands a field a line, or it would be all indentation."""
    crd = json.loads(json.dumps(crd))
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "properties"]
    _fold(fields["env"]["items"]["properties"]["valueFrom"]["properties"])
    _fold(fields["envFrom"]["items"]["properties"])
    pod = fields["template"]["properties"]["spec"]["properties"]
    container = pod["containers"]["items"]["properties"]
    _fold(pod, but=["containers"])
    _fold(container)
    lines = yaml.dump(crd, Dumper=_Dumper, sort_keys=False, width=1 << 20, allow_unicode=True)
    return _HEADER + _unquoted(lines)


def _fold(fields, but=()):
    for name in fields:
        if name not in but:
            fields[name] = _Line(fields[name])


def _unquoted(lines):
    """The one-line mappings as JSON, which is YAML, in place of texts that hold JSON."""
    made = []
    for line in lines.splitlines():
        head, tag, quoted = line.partition("!<tag:lockstep.dev,2026:line> ")
        made.append(head + yaml.safe_load(quoted) if tag else line)
    return "\n".join(made) + "\n"
