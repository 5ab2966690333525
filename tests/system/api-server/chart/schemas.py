"""JSON schemas for kubeconform: of Kubernetes' own kinds from a release's OpenAPI document, of
others from their CustomResourceDefinitions. Fields that a schema doesn't know are refused."""

import json
import pathlib

import parts
import yaml

GIVEN_AS_NUMBERS_TOO = ("int-or-string", "quantity")


def write(folder, version, definitions):
    """Schemas of Kubernetes `version` (1.33.0) and of these CustomResourceDefinitions."""
    module = parts.files(f"k8s.io/kubernetes@v{version}")
    _write_kubernetes(folder, json.loads((module / "api/openapi-spec/swagger.json").read_text()))
    for file in definitions:
        _write_custom(folder, yaml.safe_load(file.read_text()))


def location(folder):
    """Where kubeconform is to look: its --schema-location."""
    return f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"


def _file(folder, group, version, kind):
    parts_of_name = [kind, *([group.split(".")[0]] if group else []), version]
    return pathlib.Path(folder) / ("-".join(parts_of_name).lower() + ".json")


def _write_kubernetes(folder, document):
    definitions = document["definitions"]
    for name, schema in definitions.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            needed = _reachable(definitions, name)
            whole = {"$ref": f"#/definitions/{name}",
                     "definitions": {each: _strict(definitions[each]) for each in needed}}
            _file(folder, kind["group"], kind["version"], kind["kind"]).write_text(
                json.dumps(whole))


def _write_custom(folder, definition):
    spec = definition["spec"]
    for version in spec["versions"]:
        schema = _strict(version["schema"]["openAPIV3Schema"])
        properties = schema.setdefault("properties", {})
        for name in ("apiVersion", "kind", "metadata"):
            properties.setdefault(name, {})
        _file(folder, spec["group"], version["name"], spec["names"]["kind"]).write_text(
            json.dumps(schema))


def _reachable(definitions, name):
    found, new = set(), {name}
    while new:
        each = new.pop()
        found.add(each)
        new |= set(_references(definitions[each])) - found
    return found


def _references(schema):
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix("#/definitions/")
        schema = list(schema.values())
    if isinstance(schema, list):
        for each in schema:
            yield from _references(each)


def _strict(schema):
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: {each: _strict(value) for each, value in value.items()}
            if name == "properties" else _strict(value)
            for name, value in schema.items() if name != "format"}
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if "properties" in schema and "additionalProperties" not in schema and not open_ended:
        made["additionalProperties"] = False
    if (schema.get("format") in GIVEN_AS_NUMBERS_TOO or schema.get("x-kubernetes-int-or-string")
            or "Quantity is" in schema.get("description", "")):
        made["type"] = ["string", "integer", "number"]
    return made
