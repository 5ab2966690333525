"""The base of the generated dataclasses: what the fields may hold, and the way to JSON and back."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from typing import Any, ClassVar, Dict, Iterator, List, Mapping, Optional, Tuple, Type, TypeVar

from lockstep_client.errors import JobInvalid

R = TypeVar("R", bound="Record")


def of(name: str, **limits: Any) -> Dict[str, Any]:
    """The metadata of a field: its name in YAML; minimum, maximum, above (exclusive), codec."""
    return {"json": name, **limits}


class Record:
    """A part of a TrainingJob. A field that is None is absent in YAML."""

    _checked: ClassVar[bool] = True  # whether the values are checked, as those of a spec are

    def __post_init__(self) -> None:
        problems = list(self.problems()) if self._checked else []
        if problems:
            raise JobInvalid(problems)

    if not typing.TYPE_CHECKING:  # else mypy would take any name for a field

        def __setattr__(self, name: str, value: Any) -> None:
            if name not in _fields(type(self)):
                raise AttributeError(f"{type(self).__name__} has no field {name!r}"
                                     + _meant(name, _fields(type(self))))
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in _fields(type(self)))
        shown = ", ".join(f"{name}={value!r}" for name, value in values if value is not None)
        return f"{type(self).__name__}({shown})"

    def problems(self, where: str = "") -> Iterator[str]:
        """What is wrong with the values' types, choices and limits, a sentence each."""
        for name, (field, hint) in _fields(type(self)).items():
            value = getattr(self, name)
            if value is None and not _optional(hint):
                yield f"{where}{name}: is missing"
            elif value is not None:
                yield from _check(f"{where}{name}", value, hint, field.metadata)

    def to_dict(self) -> Dict[str, Any]:
        """The record as YAML has it, without fields that are None. Raises JobInvalid."""
        problems = list(self.problems()) if self._checked else []
        if problems:
            raise JobInvalid(problems)
        found = {}
        for name, (field, _) in _fields(type(self)).items():
            value = getattr(self, name)
            if value is not None and "json" in field.metadata:
                found[field.metadata["json"]] = _plain(value, field.metadata)
        return found

    @classmethod
    def from_dict(cls: Type[R], data: Mapping[str, Any]) -> R:
        """The record that YAML describes. Raises JobInvalid for a field that does not exist.

        A status takes unknown fields, which a newer operator may have written, and drops them.
        """
        problems: List[str] = []
        values = cls._values(data, "", problems, cls._checked)
        if problems:
            raise JobInvalid(problems)
        return cls(**values)

    @classmethod
    def _values(cls, data: Any, where: str, problems: List[str], strict: bool) -> Dict[str, Any]:
        """The fields' values. `strict`: an unknown field is a problem; else it is left out."""
        if not isinstance(data, Mapping):
            problems.append(f"{where or cls.__name__}: must be a mapping, not {_kind(data)}")
            return {}
        names = {field.metadata["json"]: (name, field, hint)
                 for name, (field, hint) in _fields(cls).items() if "json" in field.metadata}
        values = {}
        for key, value in data.items():
            if key in names and value is not None:
                name, field, hint = names[key]
                values[name] = _read(f"{where}{key}", value, hint, field.metadata, problems,
                                     strict)
            elif key not in names and strict:
                problems.append(f"{where}{key}: unknown field" + _meant(str(key), names))
        for key, (name, field, hint) in names.items():
            if name not in values and field.default is dataclasses.MISSING:
                problems.append(f"{where}{key}: is missing")
        return values


_known: Dict[type, Dict[str, Tuple[Any, Any]]] = {}


def _fields(cls: type) -> Dict[str, Tuple[Any, Any]]:
    """Name -> (field, type). Types are looked up once, because that takes a while."""
    if cls not in _known:
        hints = typing.get_type_hints(cls)
        _known[cls] = {each.name: (each, hints[each.name]) for each in dataclasses.fields(cls)}
    return _known[cls]


def _optional(hint: Any) -> bool:
    return type(None) in typing.get_args(hint)


def _inner(hint: Any) -> Any:
    """Optional[X] -> X."""
    inner = tuple(each for each in typing.get_args(hint) if each is not type(None))
    if not _optional(hint):
        return hint
    return inner[0] if len(inner) == 1 else typing.Union[inner]


def _check(where: str, value: Any, hint: Any, limits: Mapping[str, Any]) -> Iterator[str]:
    hint = _inner(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return
    if origin is typing.Literal:
        if value not in arguments:
            choices = ", ".join(str(each) for each in arguments)
            meant = _meant(str(value), arguments)
            yield f"{where}: must be one of {choices}, not {value!r}{meant}"
    elif origin is typing.Union:
        if not any(not list(_check(where, value, each, limits)) for each in arguments):
            names = " or ".join(getattr(each, "__name__", str(each)) for each in arguments)
            yield f"{where}: must be {names}, not {_kind(value)}"
    elif origin in (list, List):
        if not isinstance(value, (list, tuple)):
            yield f"{where}: must be a list, not {_kind(value)}"
            return
        for i, each in enumerate(value):
            yield from _check(f"{where}[{i}]", each, arguments[0], limits)
    elif origin in (dict, Dict):
        if not isinstance(value, Mapping):
            yield f"{where}: must be a dict, not {_kind(value)}"
            return
        for key, each in value.items():
            if not isinstance(key, str):
                yield f"{where}: a name must be a str, not {_kind(key)}"
            yield from _check(f"{where}[{key!r}]", each, arguments[1], limits)
    elif isinstance(hint, type) and issubclass(hint, Record):
        if isinstance(value, hint):
            yield from value.problems(f"{where}.")
        else:
            yield f"{where}: must be a lockstep.{hint.__name__}, not {_kind(value)}"
    else:
        yield from _check_plain(where, value, hint, limits)


def _check_plain(where: str, value: Any, hint: Any, limits: Mapping[str, Any]) -> Iterator[str]:
    wanted = (int, float) if hint is float else hint
    if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
        yield f"{where}: must be {hint.__name__}, not {_kind(value)}"
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high, above = (limits.get(each) for each in ("minimum", "maximum", "above"))
        if above is not None and not value > above:
            yield f"{where}: must be greater than {above}, not {value}"
        elif (low is not None and value < low) or (high is not None and value > high):
            if low is None or high is None:
                bounds = f"at least {low}" if high is None else f"at most {high}"
            else:
                bounds = f"{low} to {high}"
            yield f"{where}: must be {bounds}, not {value}"


def _read(where: str, value: Any, hint: Any, limits: Mapping[str, Any], problems: List[str],
          strict: bool) -> Any:
    hint = _inner(hint)
    if limits.get("codec") == "env":
        return _read_env(where, value, problems)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, List) and isinstance(value, list):
        return [_read(f"{where}[{i}]", each, arguments[0], {}, problems, strict)
                for i, each in enumerate(value)]
    if isinstance(hint, type) and issubclass(hint, Record):
        before = len(problems)
        values = hint._values(value, f"{where}.", problems, strict)
        if len(problems) > before:
            return None
        try:
            return hint(**values)
        except JobInvalid as error:
            problems.extend(f"{where}.{each}" for each in error.problems)
            return None
    return value


def _read_env(where: str, value: Any, problems: List[str]) -> Dict[str, Any]:
    """[{name, value}, ...] as {name: value}; a variable with a source has that as its value."""
    found: Dict[str, Any] = {}
    for i, each in enumerate(value if isinstance(value, list) else []):
        name = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(name, str):
            problems.append(f"{where}[{i}].name: is missing")
        elif name in found:
            problems.append(f"{where}[{i}]: {name} is set twice")
        else:
            found[name] = each["valueFrom"] if "valueFrom" in each else each.get("value", "")
    if not isinstance(value, list):
        problems.append(f"{where}: must be a list, not {_kind(value)}")
    return found


def _plain(value: Any, limits: Mapping[str, Any]) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    if limits.get("codec") == "env":
        return [{"name": name, ("valueFrom" if isinstance(each, Mapping) else "value"): each}
                for name, each in value.items()]
    if isinstance(value, (list, tuple)):
        return [_plain(each, {}) for each in value]
    if isinstance(value, Mapping):
        return {key: _plain(each, {}) for key, each in value.items()}
    return value


def _meant(name: str, names: Any) -> str:
    close: List[Any] = difflib.get_close_matches(name, [str(each) for each in names], n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


def _kind(value: Optional[Any]) -> str:
    return f"{type(value).__name__} {value!r:.60}"
