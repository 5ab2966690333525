"""TrainingJobs made of the CRD's schema: for each field a valid value, each bound and one past it,
wrong types, null, and an unknown sibling.
"""

import copy
import re

import schema_walk

LABEL = "a" * 63
WRONG = {
    "string": [1, True, [], {}],
    "integer": ["text", "1", True, [], {}, 1.5],
    "number": ["text", "1", True, [], {}],
    "boolean": ["true", 1, [], {}],
    "array": ["text", 1, {}, {"a": 1}],
    "object": ["text", 1, [], True],
    "quantity": [True, [], {}, 0.5],
}


class Case:
    """`right`: what both must say of it; None: only the same."""

    def __init__(self, path, kind, document, right):
        self.path = path
        self.kind = kind
        self.document = document
        self.right = right

    def __str__(self):
        shown = f": {self.document['spec']}" if self.path == "spec" else ""
        return f"{self.kind} of {self.path}{shown}"


def job(spec, name="job"):
    return {"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name}, "spec": spec}


def a_command(**more):
    return {"image": "i", "command": ["python", "train.py"], **more}


def a_trainer(**more):
    return {"trainer": {"data": ["a"], "prompts": ["a"], "validationData": ["a"], **more}}


_STORE = {"url": "s3://bucket", "memory": {"size": "1Gi"}}
# What stands beside a field for it to be right.
_COMPANY = {
    "spec.env[].value": {"name": "A"},
    "spec.env[].valueFrom": {"name": "A"},
    "spec.env[]": {"name": "A"},
    "spec.imagePullSecrets[]": {"name": "a"},
    "spec.failurePolicy.rules[]": {"stderr": "x"},
    "spec.failurePolicy.rules[].action": {"stderr": "x"},
    "spec.failurePolicy.rules[].metric": {"above": 1},
    **{f"spec.failurePolicy.rules[].{name}": {"metric": "a"} for name in ("is", "above", "risesBy")},
    **{f"spec.failurePolicy.rules[].{name}": {"metric": "a", "above": 1} for name in ("within", "for")},
    **{f"spec.failurePolicy.rules[].{name}": {"metric": "a", "above": 1, "action": "RestartFromEarlier"}
       for name in ("skipSteps", "atMost")},
    "spec.checkpoint.claim": {"path": "/a"},
    "spec.checkpoint.url": {"memory": {"size": "1Gi"}},
    "spec.checkpoint.secret": _STORE,
    "spec.checkpoint.keepEvery": _STORE,
    "spec.checkpoint.uploadBandwidth": _STORE,
    "spec.placement.topologyMode": {"topologyKey": "a"},
    "spec.placement.topologyLevels": {"topologyKey": "a"},
    "spec.placement.topologyLevels[]": {"topologyKey": "a"},
    "spec.topology.map[]": {"cpus": "0"},
    "spec.topology.map[].memory": {"cpus": "0"},
    "spec.restartRequest.reason": {"id": "a"},
    "spec.restartRequest.requestedBy": {"id": "a"},
    "spec.restartRequest.atCommit": {"id": "a"},
    "spec.roles[]": {"name": "a"},
    "spec.roles[].count": {"name": "a"},
    "spec.roles[].restart": {"name": "a"},
}
_SIZES = {"layers": 2, "heads": 1, "width": 64, "vocabulary": 256}


def _with_value(path, value):
    spec = a_trainer() if path.startswith("spec.trainer") else a_command()
    steps = re.findall(r"[^.\[\]]+|\[\]", path)[1:]
    holder, at = spec, "spec"
    for step, following in zip(steps, steps[1:] + [None]):
        at += step if step == "[]" else "." + step
        inner = [] if following == "[]" and step != "resourcesPerMachine" else {}
        if at == "spec.trainer.modelShape" and following:
            inner = dict(_SIZES)
        value_here = value if following is None else inner
        if step != "[]":
            if following is None or step not in holder:
                if following is None:
                    holder.update(_COMPANY.get(path, {}))
                holder[step] = value_here
            holder = holder[step]
        elif isinstance(holder, list):
            holder[:] = [value_here]
            holder = value_here
        else:
            holder["example.com/a"] = value_here
            holder = value_here
    _keep_company(spec, path, value)
    return job(spec)


def _keep_company(spec, path, value):
    """What depends on the value itself."""
    if path == "spec.trainer.microBatchSize" and type(value) is int:
        spec["trainer"]["globalBatchSize"] = value
    if path.startswith("spec.topology.map") or (path, value) == ("spec.topology.bind", "Map"):
        mapped = spec["topology"].setdefault("map", [{"cpus": "0"}])
        if isinstance(mapped, list) and mapped:
            spec["topology"]["bind"] = "Map"
            spec["processesPerMachine"] = min(len(mapped), 64)
    if (path, value) == ("spec.topology.policy", "Required"):
        spec["resourcesPerProcess"] = {"cpu": 1, "memory": "1Gi"}
    if path.startswith("spec.placement.topologyLevels"):
        spec["placement"]["topologyKey"] = "a"
    if path.startswith("spec.trainer.servers"):
        spec.update(numMachines=1024, processesPerMachine=64)
        spec["trainer"]["globalBatchSize"] = 65536
    if path == "spec.trainer.parallel.pipeline" and type(value) is int:
        stages = min(max(value, 1), 1024)
        spec["numMachines"] = stages
        spec["trainer"]["modelShape"] = {**_SIZES, "layers": stages}
    if path.startswith("spec.trainer.parallel.tensor") and type(value) in (int, float):
        shards = min(max(int(value), 1), 1024)
        spec["trainer"]["modelShape"] = {**_SIZES, "heads": shards, "width": shards}
        if path.endswith("tensor"):
            spec["numMachines"] = spec["trainer"]["parallel"]["tensorShards"] = shards
    if path.startswith("spec.trainer.") and value in ("Cuda", "Nccl"):
        spec["trainer"]["model"] = "gpt2"
        spec["resourcesPerProcess"] = {"gpu": 1}
    if path == "spec.checkpoint.resume" and isinstance(value, str) and value.startswith("/"):
        spec["checkpoint"]["path"] = "/checkpoints"
    if path == "spec.failurePolicy.rules[].action" and value in ("RestartFromEarlier", "Report"):
        spec["failurePolicy"]["rules"] = [{"metric": "a", "above": 1, "action": value}]
    if "RestartFromEarlier" in str(spec.get("failurePolicy")):
        spec["checkpoint"] = {"path": "/checkpoints"}
    if path == "spec.successRole" and isinstance(value, str):
        spec.update(successPolicy="Role", roles=[{"name": value}])
    if (path, value) == ("spec.successPolicy", "Role"):
        spec.update(successRole="a", roles=[{"name": "a"}])
    if path == "spec.roles" and isinstance(value, list):
        spec["numMachines"] = max(len(value), 1)
    if path == "spec.roles[].count" and type(value) is int and value > 1:
        spec.update(numMachines=4096, processesPerMachine=64)
    if path.startswith("spec.elastic."):
        spec["numMachines"] = 4096
    if path == "spec.trainer.modelShape.heads" and type(value) is int:
        spec["trainer"]["modelShape"]["width"] = value


def _long_text(path, length):
    """A right value of that many characters."""
    name = path.rsplit(".", 1)[-1]
    if name == "risesBy":
        return "2" * min(length - 1, 6) + ("." + "0" * (length - 8) if length > 7 else "") + "x"
    if name == "url":
        return "s3://bucket/" + "a" * (length - 12)
    if name in ("claim", "secret", "priorityClassName", "schedulerName") or "imagePullSecrets" in path:
        return (".".join([LABEL] * 8))[:length]
    if path.startswith("spec.topology.map"):
        return "10"[:2 - length % 2] + ",1" * ((length - 1) // 2)
    if name in ("gpuResource", "topologyKey", "topologyLevels[]", "managedBy"):
        return ".".join([LABEL] * 3 + ["a" * 61]) + "/" + "a" * (length - 254)
    if name == "patterns[]":
        return "(?P<step>" + "a" * max(length - 10, 1) + ")"
    if name == "prestartExclude[]":
        return "_" * length
    if name in ("path", "resume"):
        return "/" + "a" * (length - 1)
    if _is_duration(path, None):
        return "2." + "0" * (length - 3) + "s"
    return "a" * length


def _is_duration(path, schema):
    if schema is not None:
        return any("duration(self)" in each["rule"] for each in schema.get(schema_walk.RULES, []))
    return re.search(r"(gracePeriod|GracePeriod|Timeout|resetAfter|machineLostAfter|persistEvery|keepEvery|"
                     r"shrinkAfter|growAfter)$", path)


def _items(path, schema, count):
    """A right list of that many items."""
    if path == "spec.env":
        return [{"name": f"A{i}"} for i in range(count)]
    if path == "spec.trainer.servers":
        return list(range(count))
    if path == "spec.elastic.sizes":
        return list(range(1, count + 1))
    if path == "spec.roles":
        return [{"name": f"a{i}"} for i in range(count)]
    if path == "spec.failurePolicy.rules[].exitCodes":
        return [1 + i % 255 for i in range(count)]
    if path == "spec.envFrom":
        return [{"secretRef": {"name": "a"}}] * count
    return [_right(path + "[]", schema["items"])] * count


def _right(path, schema):
    kind = _kind(schema)
    if path == "spec.template":
        return {"spec": {"hostNetwork": True}}
    if path == "spec.trainer.modelShape":
        return dict(_SIZES)
    if path == "spec.restartRequest":
        return {"id": "a"}
    if "enum" in schema:
        return schema["enum"][-1]
    if _is_duration(path, schema):
        return "5s"
    if kind == "quantity":
        return "1"
    if kind == "string":
        return _long_text(path, 3 if "/" not in _long_text(path, 317)[1:] else 256)
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 1), 1)
    if kind == "boolean":
        return True
    if kind == "array":
        return _items(path, schema, 1)
    if path in _COMPANY:
        return copy.deepcopy(_COMPANY[path])
    if kind == "object" and "additionalProperties" in schema:
        return {"example.com/a": _right(path + "[]", schema["additionalProperties"])}
    return {}


def _kind(schema):
    return "quantity" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "open")


def cases(whole):
    for path, schema in schema_walk.spec_fields(whole).items():
        yield from _of_field(path, schema)
    yield from _of_model_shape()
    for path, schema in schema_walk.spec_fields(whole).items():
        if "properties" in schema:
            right = _right(path, schema)
            if path == "spec.trainer":
                right = a_trainer()["trainer"]
            yield Case(path, "unknown sibling", _with_value(path, {**right, "unknown": 1}), False)
    yield Case("spec", "unknown sibling", job(a_command(unknown=1)), False)


def _of_field(path, schema):
    def case(kind, value, right):
        return Case(path, kind, _with_value(path, value), right)

    right = _right(path, schema)
    if path == "spec.trainer":
        right = a_trainer()["trainer"]
    yield case("valid value", right, True)
    yield case("null", None, None)
    kind = _kind(schema)
    for wrong in WRONG.get(kind, []):
        yield case("wrong type", wrong, False)
    yield from _bounds(path, schema, case)


def _bounds(path, schema, case):
    kind = _kind(schema)
    if "enum" in schema:
        for value in schema["enum"]:
            yield case("valid value", value, True)
        yield case("past its bound", "Bogus", False)
        yield case("past its bound", str(schema["enum"][0]).swapcase(), False)
    elif kind in ("integer", "number"):
        yield from _number_bounds(schema, kind, case)
    elif kind == "string":
        most = schema["maxLength"]
        yield case("bound", _long_text(path, most), True)
        yield case("past its bound", _long_text(path, most + 1), False)
        if most < 10000 and "a" * most == _long_text(path, most) and "name" not in path.lower() and (
                path != "spec.successRole"):
            yield case("bound", "é" * most, True)
        yield case("empty text", "", None)
    elif kind == "array":
        most = schema["maxItems"]
        yield case("bound", _items(path, schema, most), True)
        yield case("past its bound", _items(path, schema, most + 1), False)
        yield case("empty list", [], None)
        yield case("null item", [None], False)
    elif kind == "object" and "additionalProperties" in schema:
        most = schema["maxProperties"]
        yield case("bound", {f"a/{i}": 1 for i in range(most)}, True)
        yield case("past its bound", {f"a/{i}": 1 for i in range(most + 1)}, False)
        yield case("empty map", {}, True)
    if _is_duration(path, schema):
        yield from _durations(schema, case)
    if kind == "quantity":
        yield from _quantities(schema, case)


def _number_bounds(schema, kind, case):
    step = 1 if kind == "integer" else 0.001
    low, high = schema.get("minimum"), schema.get("maximum")
    if kind == "integer":
        yield case("whole number", 8.0, None)
        if low is None:
            low, high = -(1 << 63), (1 << 63) - 1
    if low is not None:
        past = low if schema.get("exclusiveMinimum") else low - step
        yield case("bound", low + step if past == low else low, True)
        yield case("past its bound", past, False)
    if high is not None:
        yield case("bound", high, True)
        yield case("past its bound", high + 1, False)


def _durations(schema, case):
    text = " ".join(each["rule"] for each in schema[schema_walk.RULES])
    low, high = (re.search(rf"{sign} duration\('(\w+)'\)", text)[1] for sign in (">=", "<="))
    yield case("bound", low, True)
    yield case("bound", high, True)
    yield case("past its bound", high + "1ns", False)
    yield case("past its bound", "-1ns", False)
    if low != "0s":
        yield case("past its bound", {"1s": "999ms", "2s": "1999ms"}[low], False)
    for value in ("0", "0s", "1h1m1s1ms1us1ns", "1.5s", ".5m", "1.s", "+5s", "5", "5 s", "s", "",
                  "1d", "5S", "9999999999h", "1e3s", "5s ", "٣s", "1µs", "3000000h"):
        yield case("duration", value, None)


def _quantities(schema, case):
    text = " ".join(each["rule"] for each in schema[schema_walk.RULES])
    most = re.search(r"compareTo\(quantity\('(\w+)'\)\) <= 0", text)[1]
    above_zero = "isGreaterThan" in text
    yield case("bound", most, True)
    yield case("past its bound", {"4096": "4096001m", "64Ti": "65Ti", "8Pi": "9Pi"}[most], False)
    yield case("bound", "1" if above_zero else "0", True)
    yield case("past its bound", "0" if above_zero else "-1", False)
    for value in ("0", "1", "-1", "+1", "1n", "1u", "500m", "1.5", ".5", "1.", "1e3", "1E3", "1E",
                  "1e", "1e+2", "1e-2", "1e-30", "1e30", "1e99", "1e100", "1k", "1K", "1M", "1Mi",
                  "1mi",                  "1.5Gi", "0.1Gi", "1.1Ti", "4096", "4097", "4096.001", "64Ti", "65Ti", "64.5Ti",
                  "8Pi", "8.1Pi", "9Pi", "1Ei", "9E", "9007199254740993", "9223372036854775808",
                  "1000m", "1001m", "1 ", " 1", "", ".", "-", "--1", "1..2", "0x10", "1_0", "NaN",
                  "1GiB", "0.0001", "0.123456789012345678901", "1000000000u", "1i", "1m1"):
        yield case("quantity", value, None)
    for value in (0, 1, -1, 4096, 4097, 1e3, 1.0, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, 1 << 63):
        yield case("quantity", value, None)


def _of_model_shape():
    for sizes in ({}, {"layers": 2}, {**_SIZES, "layers": None},
                  {name: str(value) for name, value in _SIZES.items()}):
        yield Case("spec.trainer.modelShape", "wrong type", job(a_trainer(modelShape=sizes)), False)
    yield Case("spec.trainer.modelShape", "with a name", job(a_trainer(model="gpt2", modelShape=_SIZES)),
               True)
