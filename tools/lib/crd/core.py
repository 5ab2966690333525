"""core.json: core's tables, which `tools/crd --core` takes from lockstep-validator.

The CRD has its names, types, choices, lengths, ranges and defaults from there; descriptions and rules
are written by hand beside it. `clusterOnly` lists the fields that `lockstep run` ignores. `frameworks`,
`causes` and `figures` are rows of core/model/framework.h, core/failure/causes.h and
core/terms/known_figures.h, for rules, documents and dashboards.
"""

import json
import pathlib
import sys

FILE = pathlib.Path(__file__).with_name("core.json")
CORE = json.loads(FILE.read_text())
INNER = ("properties", "items", "additionalProperties")


class TABLE:
    """In a schema: what core says."""


class MEMBERS:
    """As a default: the members' own."""


def names_of(table, flag=None, value=True):
    """Names of a table's rows: all, or those whose `flag` is `value`."""
    return [row["name"] for row in CORE[table] if flag is None or row[flag] is value]


def spelled(names, word):
    """a, b or c."""
    return f" {word} ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def text():
    """core.json's: a field of spec or status a line, and a row of a table."""
    parts = []
    for name, said in CORE.items():
        if isinstance(said, list) and said and isinstance(said[0], dict):
            rows = ",\n".join(f"  {json.dumps(row)}" for row in said)
            parts.append(f"{json.dumps(name)}: [\n{rows}]")
            continue
        if "properties" not in said:
            parts.append(f"{json.dumps(name)}: {json.dumps(said)}")
            continue
        fields = ",\n".join(f"  {json.dumps(field)}: {json.dumps(each)}"
                            for field, each in said["properties"].items())
        parts.append(f'{json.dumps(name)}: {{"type": "object", "properties": {{\n{fields}}}}}')
    return "{" + ",\n".join(parts) + "}\n"


def fill(schema, said, path):
    """Puts what core says of a field into its schema. The two must know the same fields."""
    for key, value in list(schema.items()):
        if value is TABLE and key not in said:
            if key != "default":
                sys.exit(f"{path}: write its {key} in core's table, or in tools/lib/crd")
            del schema[key]
        elif value is TABLE:
            schema[key] = said[key]
        elif key in said and key not in INNER and value != said[key]:
            sys.exit(f"{path}: {key} is {value} in tools/lib/crd, and {said[key]} in core's table")
    fields, known = schema.get("properties", {}), said.get("properties", {})
    for name in fields.keys() ^ known.keys() if "properties" in said else ():
        there, here = ("tools/lib/crd", "core's table")[::1 if name in fields else -1]
        sys.exit(f"{path}.{name} stands in {there}; write it in {here}, too, or remove it")
    for name, each in known.items():
        fill(fields[name], each, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in said:
            fill(schema[key], said[key], f"{path}[]")
    if schema.get("default") is MEMBERS:
        schema["default"] = {name: each["default"] for name, each in fields.items()
                             if "default" in each}
    return schema


def without_blanks(schema):
    """A schema of which core knows nothing."""
    if isinstance(schema, list):
        return [without_blanks(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_blanks(each) for key, each in schema.items() if each is not TABLE}
