"""The API server's own parts of the schema: PodTemplateSpec and the sources of a variable's value.

They come from a server's OpenAPI document, without descriptions, because with them the CRD would be
too big for a client-side `kubectl apply`. Lockstep adds its own limits and rules.
"""

import copy

from crd import shortcuts, template_rules
from crd.core import CORE, fill
from crd.schema import mapping, struct, text

_CORE = "io.k8s.api.core.v1."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INT_OR_STRING = ("io.k8s.apimachinery.pkg.api.resource.Quantity",
                  "io.k8s.apimachinery.pkg.util.intstr.IntOrString")
_KEPT = ("type", "format", "enum", "required", "x-kubernetes-list-type",
         "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
_MOST_CONTAINERS = {"containers": 8, "initContainers": 16}
_MOST_VOLUMES = 256
_MOST_MOUNTS = 256
_LONGEST_AMOUNT = 32  # of a resource, as text
_MOST_ITEMS = 1024  # of any other list


class Pod:
    """Made of an OpenAPI v3 document (`kubectl get --raw /openapi/v3/api/v1`), or of a CRD that was
    made of one: our limits and rules fall on the same places again.
    """

    def __init__(self, template, variable_source, variables_source):
        self._template = template
        self._variable_source = variable_source
        self._variables_source = variables_source

    @classmethod
    def of_openapi(cls, document):
        schemas = document["components"]["schemas"]
        return cls(*(_converted(schemas, schemas[_CORE + name])
                     for name in ("PodTemplateSpec", "EnvVarSource", "EnvFromSource")))

    @classmethod
    def of_crd(cls, crd):
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        fields = schema["properties"]["spec"]["properties"]
        source = dict(fields["env"]["items"]["properties"]["valueFrom"])
        del source["description"]
        return cls(fields["template"], source, fields["envFrom"]["items"])

    def variable_source(self):
        return copy.deepcopy(self._variable_source)

    def variables_source(self):
        return copy.deepcopy(self._variables_source)

    def template(self):
        made = {"description": "A pod template for all other fields of a pod. Its container worker "
                               "is the training container."}
        made.update(copy.deepcopy(self._template))
        made["properties"]["metadata"] = _metadata()
        _limit_pod(made["properties"]["spec"])
        return made


def _converted(schemas, source):
    """An OpenAPI schema as a structural one, with what it refers to in place."""
    if "allOf" in source:
        source = source["allOf"][0]
    if "$ref" in source:
        name = source["$ref"].rsplit("/", 1)[1]
        if name in _INT_OR_STRING:
            return {"x-kubernetes-int-or-string": True}
        if name == _META:
            return _embedded_metadata()
        return _converted(schemas, schemas[name])
    made = {key: source[key] for key in _KEPT if key in source}
    for key in ("items", "additionalProperties"):
        if key in source:
            made[key] = _converted(schemas, source[key])
    if "properties" in source:
        made["properties"] = {name: _converted(schemas, each)
                              for name, each in source["properties"].items()}
    if "x-kubernetes-list-map-keys" in made:
        _make_keys_certain(made, schemas, source["items"])
    return made


def _make_keys_certain(made, schemas, items):
    """What a list's items are told apart by is required, or has a default."""
    reference = items["allOf"][0]["$ref"].rsplit("/", 1)[1]
    required = made["items"].get("required", [])
    for key in made["x-kubernetes-list-map-keys"]:
        default = schemas[reference]["properties"][key].get("default", "")
        if key not in required and default == "":
            made["items"]["required"] = [*required, key]
        elif key not in required:
            made["items"]["properties"][key]["default"] = default


def _embedded_metadata():
    words = {"type": "object", "additionalProperties": {"type": "string"}}
    return {"type": "object", "properties": {"annotations": words, "labels": words}}


def _metadata():
    """Labels and annotations; the rest is in the schema for rules that say why it must go."""
    owner = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return struct("Labels and annotations of the pods.", {
        "labels": mapping("Labels of the pods.", text("", longest=63), most=64),
        "annotations": mapping("Annotations of the pods.", text("", longest=262144), most=64),
        "name": text("Must be absent.", longest=253),
        "generateName": text("Must be absent.", longest=253),
        "namespace": text("Must be absent.", longest=253),
        "ownerReferences": {"description": "Must be absent.", "type": "array", "maxItems": 64,
                            "items": owner, "x-kubernetes-list-type": "atomic"},
        "finalizers": {"description": "Must be absent.", "type": "array", "maxItems": 64,
                       "items": text("", longest=253), "x-kubernetes-list-type": "atomic"},
    }, *template_rules.of_metadata())


def _limit_pod(pod):
    pod.pop("required", None)  # a template need not name the worker container
    pod["x-kubernetes-validations"] = template_rules.of_pod()
    fields = pod["properties"]
    for name, most in {**_MOST_CONTAINERS, "volumes": _MOST_VOLUMES}.items():
        fields[name]["maxItems"] = most
        fields[name]["items"]["properties"]["name"]["maxLength"] = 63
    for name in _MOST_CONTAINERS:
        mounts = fields[name]["items"]["properties"]["volumeMounts"]
        mounts["maxItems"] = _MOST_MOUNTS
        mounts["items"]["properties"]["name"]["maxLength"] = 63
        for amounts in ("limits", "requests"):
            resources = fields[name]["items"]["properties"]["resources"]["properties"]
            resources[amounts]["additionalProperties"]["maxLength"] = _LONGEST_AMOUNT
    limits = {name: fill(each, CORE["spec"]["properties"][name], name)
              for name, each in shortcuts.fields({}, {}).items()}
    for name in shortcuts.OF_POD:
        _lay(limits[name], fields[name], rules=True)
    container = fields["containers"]["items"]
    for name in shortcuts.OF_CONTAINER:
        _lay(limits[name], container["properties"][name])
    container["x-kubernetes-validations"] = template_rules.of_container()
    _limit_lists(pod)


def _limit_lists(schema):
    """Every list has an end: the operator keeps what stands in them."""
    if schema.get("type") == "array":
        schema.setdefault("maxItems", _MOST_ITEMS)
    inner = [*schema.get("properties", {}).values(), schema.get("items"),
             schema.get("additionalProperties")]
    for each in inner:
        if isinstance(each, dict):
            _limit_lists(each)


def _lay(limits, schema, rules=False):
    """Puts the limits of a field of the spec on the template's field for the same."""
    for key in ("maxLength", "maxItems", *(["x-kubernetes-validations"] if rules else [])):
        if key in limits:
            schema[key] = limits[key]
    if "properties" in schema and "properties" in limits:
        for name, each in limits["properties"].items():
            if name in schema["properties"]:
                _lay(each, schema["properties"][name], rules)
    if isinstance(limits.get("items"), dict):
        _lay(limits["items"], schema["items"], rules)
