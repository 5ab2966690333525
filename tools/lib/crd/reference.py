"""docs/reference/api.md: every field of a TrainingJob, and the messages of the rules."""

import json

HEAD = """\
# TrainingJob, as the API server knows it

This page lists type, default, limits and meaning of every field in the CustomResourceDefinition,
and the messages of its rules. [trainingjob.md](trainingjob.md) explains how the fields work
together.

`tools/crd` makes this page and `crds/`. `kubectl explain trainingjob.spec` shows the same texts.
The fields inside `spec.template` are left out; `kubectl explain pod.spec` describes them.
"""
# The API server's own types, which `kubectl explain pod.spec.containers` describes.
OPAQUE = ("spec.template", "spec.envFrom", "spec.env[].valueFrom")


def reference(schema):
    """`schema`: the job's, with all rules."""
    properties = schema["properties"]
    parts = [HEAD.rstrip()]
    for section in ("spec", "status"):
        parts += [f"\n## {section}\n", "| field | type | default | limits | meaning |",
                  "|---|---|---|---|---|"]
        parts += _rows(section, properties[section])
        rules = list(_rules(section, properties[section]))
        if rules:
            parts += [f"\n### Messages of the rules of {section}\n", "| field | message |",
                      "|---|---|", *rules]
    return "\n".join(parts) + "\n"


def _rows(path, schema):
    for name, field in sorted(schema.get("properties", {}).items()):
        yield from _row(f"{path}.{name}", field)


def _row(path, field):
    yield (f"| `{path.partition('.')[2]}` | {_type(field)} | {_default(field)} | {_limits(field)} "
           f"| {_cell(field.get('description', ''))} |")
    if path in OPAQUE:
        return
    inner = field.get("items", field)
    if inner is not field:
        path += "[]"
    yield from _rows(path, inner)


def _type(field):
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    kind = field.get("type", "any")
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    return kind


def _default(field):
    default = field.get("default")
    # An object's default repeats those of its fields.
    return "" if default is None or isinstance(default, dict) else f"`{json.dumps(default)}`"


def _limits(field):
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    said = []
    if "minimum" in field or "maximum" in field:
        said.append(f"{field.get('minimum', '')}..{field.get('maximum', '')}")
    for key, unit in (("maxItems", "items"), ("maxProperties", "entries"),
                      ("maxLength", "characters")):
        if key in field:
            said.append(f"≤ {field[key]} {unit}")
    return ", ".join(said)


def _rules(path, field):
    """Each message once for a field, in the order of the fields."""
    seen = set()
    for rule in field.get("x-kubernetes-validations", []):
        place = path + rule.get("fieldPath", "")
        if (place, rule["message"]) not in seen:
            seen.add((place, rule["message"]))
            yield f"| `{place.partition('.')[2] or path}` | {_cell(rule['message'])} |"
    if path in OPAQUE:
        return
    for name, inner in sorted(field.get("properties", {}).items()):
        yield from _rules(f"{path}.{name}", inner)
    if "items" in field:
        yield from _rules(path + "[]", field["items"])
    if "additionalProperties" in field:
        yield from _rules(path + ".*", field["additionalProperties"])


def _cell(text):
    return text.replace("|", "\\|").replace("\n", " ")
