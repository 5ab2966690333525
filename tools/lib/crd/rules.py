"""crds/rules.yaml: the rules for a spec beyond its schema, as a ValidatingAdmissionPolicy.

The API server evaluates a rule of the CRD at every write, also of a status, which is written often.
It evaluates a policy only when the spec changes. Rules that `kubectl scale` could break stay in the
CRD, because a policy sees only the number of machines in a Scale.
"""

import re

import yaml

from crd.schema import IN_SCHEMA, ONLY_NEW, RULES

NAME = "rules.trainingjobs.lockstep.dev"
# The API server takes the fixed message in place of one of more than 5 KiB.
MOST_PROBLEMS = 10

_HEADER = """\
# Made by tools/crd from tools/lib/crd. Change it there.
#
# The rules for a TrainingJob's spec beyond the types and limits of its schema, and for its changes.
# The API server applies them when a job is created and when its spec changes.
"""


def _take(schema, path):
    """Removes the rules from a schema: (holder, rules) each, a holder being a path as in spec.env[].
    """
    taken, kept = [], []
    for rule in schema.pop(RULES, []):
        stays = rule.pop(IN_SCHEMA, False) or "numMachines" in rule["rule"]
        (kept if stays else taken).append(rule)
    if kept:
        schema[RULES] = kept
    if taken:
        yield path, taken
    for name, each in schema.get("properties", {}).items():
        yield from _take(each, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _take(schema[key], f"{path}[]")


def documents(schema, job_rules):
    """The policy and its binding; `schema` is the spec's, which loses its rules, and `job_rules`
    are of the whole object."""
    variables = []
    for holder, rules in [("", job_rules), *_take(schema, "spec")]:
        variables.append({"name": _variable(holder), "expression": _problems(holder, rules, schema)})
    every = _sum(f"variables.{each['name']}" for each in variables)
    variables.append({"name": "problems", "expression": every})
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["lockstep.dev"], "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["trainingjobs"]}]},
            "matchConditions": [{
                "name": "spec-changes",
                "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec"}],
            "variables": variables,
            "validations": [{
                "expression": "variables.problems.size() == 0",
                "message": f"has more than {MOST_PROBLEMS} mistakes; `lockstep validate` lists them",
                "messageExpression": f"variables.problems.size() > {MOST_PROBLEMS} ? '' : "
                                     "variables.problems.join('; ')",
                "reason": "Invalid",
            }],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    }
    return policy, binding


class _Dumper(yaml.SafeDumper):
    """Texts of many lines as such."""


def _text(dumper, data):
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _text)


def text(made):
    return _HEADER + yaml.dump_all(made, Dumper=_Dumper, sort_keys=False, width=1 << 20,
                                   allow_unicode=True)


def _variable(holder):
    return holder.replace("[]", "_each").replace(".", "_") or "job"


def _problems(holder, rules, schema):
    """A CEL list of what is wrong by the rules of one holder. As the API server does it for a
    schema's rules: what an update leaves as it was is let be."""
    steps = re.findall(r"[^.\[\]]+|\[\]", holder)
    if "[]" in steps:
        job = {"properties": {"spec": schema}}
        told = _sum(_problem(holder, rule, _every("object", steps, job, rule["rule"], 1))
                    for rule in rules)
    else:
        told = _sum(_problem(holder, rule, _holds(rule)) for rule in rules)
        told = f"[{'.'.join(['object', *steps])}].map(self,\n{told})[0]"
        if any("oldSelf" in rule["rule"] for rule in rules):
            old = ".".join(["oldObject", *steps])
            there = "request.operation == 'UPDATE'"
            for end in range(2, len(steps) + 1):
                there += f" && has({'.'.join(['oldObject', *steps[:end]])})"
            told = f"[{there} ? [{old}] : []].map(oldSelves,\n{told})[0]"
        for end in range(len(steps), 1, -1):
            told = f"!has({'.'.join(['object', *steps[:end]])}) ? [] :\n{told}"
    if len(steps) < 2:
        return told
    field = f".spec.?{steps[1]}"
    return (f"request.operation == 'UPDATE' && [object{field}] == [oldObject{field}] ? [] :\n"
            f"{told}")


def _sum(lists):
    return " +\n".join(lists)


def _problem(holder, rule, holds):
    path = (holder + rule.get("fieldPath", "")).removeprefix(".")
    told = _quoted(f"{path}: {rule['message']}" if path else rule["message"])
    if by := rule.get("messageExpression"):
        told = f"{_quoted(path + ': ')} + {_of_old(by)}"
    return f"({holds} ? [] : [{told}])"


def _holds(rule):
    """Of self, and where there was one before, oldSelves[0]."""
    if "oldSelf" in rule["rule"]:
        return f"oldSelves.all(oldSelf, {rule['rule']})"
    return f"request.operation != 'CREATE' || {rule['rule']}" if rule.get(ONLY_NEW) else rule["rule"]


def _of_old(expression):
    if "oldSelf" not in expression:
        return f"({expression})"
    return f"oldSelves.map(oldSelf, {expression})[0]"


def _every(value, steps, schema, rule, depth):
    """That a rule holds of all values at a path through lists and mappings."""
    if not steps:
        return rule if value == "self" else f"[{value}].all(self, {rule})"
    step, *more = steps
    if step != "[]":
        inner = _every(f"{value}.{step}", more, schema["properties"][step], rule, depth)
        return inner if value == "object" else f"(!has({value}.{step}) || {inner})"
    if "items" in schema:
        each = f"each{depth}" if more else "self"
        return f"{value}.all({each}, {_every(each, more, schema['items'], rule, depth + 1)})"
    key = f"key{depth}"
    inner = _every(f"{value}[{key}]", more, schema["additionalProperties"], rule, depth + 1)
    return f"{value}.all({key}, {inner})"


def _quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
