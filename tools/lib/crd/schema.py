"""The words that the CRD's schema is written in: one function a kind of field.

TABLE stands for what core's table says (crd/core.py). Every list, mapping and text has a limit:
without one the API server can't bound what a CEL rule costs, and refuses the rule. A rule's message
says what to write, as core's own does (core/validate/).
"""

from crd.core import MEMBERS, TABLE

RULES = "x-kubernetes-validations"
# Marks of a rule, for crd/rules.py.
ONLY_NEW = "onlyNew"  # it judges a job that is made, not one that changes
IN_SCHEMA = "inSchema"  # it stays in the CRD
# The API server's own types, which `kubectl explain pod.spec.containers` describes.
OPAQUE = ("spec.template", "spec.envFrom", "spec.env[].valueFrom")


def rule(expression, message, path=None, by=None):
    """`by` is an expression for the message that knows values; `message` stands in for it."""
    made = {"rule": expression, "message": message}
    if by:
        made["messageExpression"] = by
    if path:
        made["fieldPath"] = path
    return made


def _field(description, *rules, **schema):
    made = {"description": description} if description else {}
    made.update({key: value for key, value in schema.items() if value is not None})
    if rules:
        made[RULES] = list(rules)
    return made


def text(description, *rules, longest=TABLE):
    return _field(description, *rules, type="string", maxLength=longest, default=TABLE)


def choice(description):
    return _field(description, type="string", enum=TABLE, default=TABLE)


def integer(description, low=TABLE, high=TABLE, *rules):
    return _field(description, *rules, type="integer", format=TABLE, minimum=low, maximum=high,
                  default=TABLE)


def number(description, above=None, at_least=None, at_most=None):
    return _field(description, type="number", format="double", default=TABLE,
                  minimum=at_least if above is None else above,
                  exclusiveMinimum=None if above is None else True, maximum=at_most)


def boolean(description):
    return _field(description, type="boolean", default=TABLE)


def listing(description, items, *rules, most=TABLE, kind="atomic", keys=None, fewest=None):
    return _field(description, *rules, type="array", items=items, maxItems=most, minItems=fewest,
                  default=TABLE,
                  **{"x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": keys})


def mapping(description, values, *rules, most=TABLE):
    return _field(description, *rules, type="object", additionalProperties=values,
                  maxProperties=most)


def struct(description, properties, *rules, required=None, filled=False):
    """`filled`: where it is absent, its members' defaults stand."""
    return _field(description, *rules, type="object", properties=properties, required=required,
                  default=MEMBERS if filled else None)


def time(description):
    return _field(description, type="string", format="date-time")


DURATION = r"^[+-]?(0|(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"


def duration(description, low, high, or_off=False):
    """`or_off`: 0s, which turns off what it measures, is right as well."""
    is_one = f"self.matches(r'{DURATION}')"
    value = "duration(self)"
    off = f"{value} == duration('0s') || " if or_off else ""
    return text(
        description,
        rule(is_one, "is not a duration; write numbers with units, as in 30s, 1h30m or 500ms"),
        rule(f"!{is_one} || {off}({value} >= duration('{low}') && {value} <= duration('{high}'))",
             f"must {'be 0s (off) or ' if or_off else ''}lie between {low} and {high}"),
        longest=64)


QUANTITY = "^[-+.0-9]*[0-9][.0-9]*([a-zA-Z]{0,2}|[eE][-+]?[0-9]{1,2})$"


def quantity(description, rules_of):
    """`rules_of(q)` gives (expression, message) pairs of the CEL quantity `q`."""
    value = "quantity(string(self))"
    # To the API server "." and "-" are quantities as well, and exponents have any length.
    is_one = f"(isQuantity(string(self)) && string(self).matches('{QUANTITY}'))"
    rules = [rule(is_one, "is not a quantity; write a number with an optional suffix, as in "
                          "500m, 4, 1.5, 16Gi or 2e3")]
    rules += [rule(f"!{is_one} || {expression}", message)
              for expression, message in rules_of(value)]
    return _field(description, *rules, maxLength=64, **{"x-kubernetes-int-or-string": True})


def above_zero(value):
    return f"{value}.isGreaterThan(quantity('0'))", "must be greater than 0"


def at_most(value, most):
    return f"{value}.compareTo(quantity('{most}')) <= 0", f"must be at most {most}"


def whole(value):
    return (f"!{value}.isGreaterThan(quantity('0')) || "
            f"{value}.sub(int({value}.asApproximateFloat() + 0.5)).compareTo(quantity('0')) == 0",
            "must be a whole number of bytes; did you mean a suffix such as Mi or M instead of m?")
