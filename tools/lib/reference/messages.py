"""The messages of the rules of a TrainingJob's spec, each with the fields that it is about."""

from crd.schema import OPAQUE


def table(spec):
    about = {}
    for field, message in _rules("spec", spec):
        fields = about.setdefault(message, [])
        if field not in fields:
            fields.append(field)
    rows = ["| message | about |", "|---|---|"]
    rows += [f"| {_cell(message)} | {', '.join(f'`{field}`' for field in fields)} |"
             for message, fields in sorted(about.items(), key=lambda each: each[0].lower())]
    return "\n".join(rows) + "\n"


def _rules(path, field):
    """(field, message), in the order of the fields."""
    for rule in field.get("x-kubernetes-validations", []):
        yield (path + rule.get("fieldPath", "")).partition(".")[2] or path, rule["message"]
    if path in OPAQUE:
        return
    for name, inner in sorted(field.get("properties", {}).items()):
        yield from _rules(f"{path}.{name}", inner)
    if "items" in field:
        yield from _rules(path + "[]", field["items"])
    if "additionalProperties" in field:
        yield from _rules(path + ".*", field["additionalProperties"])


def _cell(text):
    return text.replace("|", "\\|").replace("\n", " ").replace("*", "\\*").replace("<", "&lt;")
