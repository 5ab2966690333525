"""Going over a TrainingJob's schema: its fields, and its CEL rules with the places where they stand.
"""

import re

from crd.schema import RULES

# The API server's own, which core hands through unread; rules of ours about them are covered.
HANDED_THROUGH = re.compile(r"^spec\.(template|env\[\]\.valueFrom|envFrom\[\])(\.|\[|$)")


class Rule:
    def __init__(self, path, source):
        self.holder = path
        self.path = path + source.get("fieldPath", "") if path else source.get("fieldPath", "")[1:]
        self.expression = source["rule"]
        self.message = source["message"]
        self.about_changes = "oldSelf" in source["rule"]
        by = source.get("messageExpression")
        self.shown = re.match(r"'((?:\\'|[^'%])*)", by)[1].replace("\\'", "'") if by else (
            self.message)

    def is_told_by(self, field, message):
        return self.shown in message and normal(field) in (self.path, self.holder)

    def __str__(self):
        return f"{self.path or 'the job'}: {self.message}"


def normal(field):
    """A server's path as the schema's: env[3].name is env[].name, and so is a map's member."""
    return "" if field == "<nil>" else re.sub(r"\[[^\]]*\]", "[]", field)


def children(path, schema):
    dot = path + "." if path else ""
    for name, each in schema.get("properties", {}).items():
        yield dot + name, each
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield path + "[]", schema[key]


def walk(path, schema):
    yield path, schema
    for child, each in children(path, schema):
        yield from walk(child, each)


def schema_of(crd):
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def rules(whole):
    """Of a schema: the job's with all rules, or what the CRD has of it."""
    return [Rule(path, source) for path, schema in walk("", whole)
            for source in schema.get(RULES, [])]


def spec_fields(whole):
    """Of the spec, less what core hands through: {path: schema}."""
    spec = whole["properties"]["spec"]
    return {path: schema for path, schema in walk("spec", spec)
            if path != "spec" and not HANDED_THROUGH.match(path)}


def holds(document, path):
    """Whether a document has a value at a schema's path."""
    values = [document]
    for step in re.findall(r"[^.\[\]]+|\[\]", path):
        found = []
        for value in values:
            if step == "[]":
                found += (value if isinstance(value, list) else
                          list(value.values()) if isinstance(value, dict) else [])
            elif isinstance(value, dict) and step in value:
                found.append(value[step])
        values = found
    return any(value is not None for value in values)
