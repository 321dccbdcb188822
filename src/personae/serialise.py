"""Frozen dataclasses to and from plain data, and so to and from JSON and TOML.

Reading is strict: an unknown field or a value of the wrong type is an error that names
the field, the value and what would be right.
"""

import dataclasses
import json
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypeVar, Union

from personae.errors import UsageError, nearest_match_error

T = TypeVar("T")
PlainData: TypeAlias = dict[str, Any]
"""What JSON and TOML hold: nested dicts, lists and scalars."""
LEFT_OUT = {"left out": True}
"""Metadata of a field that is not written while it has its default: it came later, and
what was written before is still to be what is written now."""


def to_plain(value: Any) -> Any:
    """Return nested dicts, lists and scalars; fields that are None are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {f.name: to_plain(v) for f, v in fields.items() if _is_written(f, v)}
    if isinstance(value, Mapping):
        return {str(name): to_plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    return value


def _is_written(field: "dataclasses.Field[Any]", value: Any) -> bool:
    usual = field.metadata == LEFT_OUT and value == field.default
    return value is not None and not usual


def from_plain(cls: type[T], data: Any, where: str) -> T:
    """Build a dataclass from a mapping; `where` names the place in error messages."""
    if not isinstance(data, Mapping):
        raise UsageError(f"{where}: expected a table of fields, not {data!r}")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in data:
        if name not in fields:
            raise nearest_match_error(f"field of {where}", name, fields)
    for name, field in fields.items():
        no_default = field.default is field.default_factory is dataclasses.MISSING
        if no_default and name not in data:
            raise UsageError(f"{where}: the field {name!r} is missing")
    values = {
        name: _convert(hints[name], value, f"{where}.{name}")
        for name, value in data.items()
    }
    try:
        return cls(**values)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


def _convert(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return from_plain(hint, value, where)  # type: ignore[arg-type]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        inner = [a for a in arguments if a is not type(None)]
        return None if value is None else _convert(inner[0], value, where)
    if origin is Literal:
        if value not in arguments:
            raise nearest_match_error(where, str(value), map(str, arguments))
        return value
    if origin is tuple:
        return _convert_tuple(arguments, value, where)
    if origin is Mapping:  # of anything, checked by its user
        if not isinstance(value, Mapping):
            raise UsageError(f"{where}: expected a table, not {value!r}")
        return value
    if origin is not None or hint is Any:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise UsageError(f"{where}: the number is too large") from error
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        raise UsageError(f"{where}: expected {hint.__name__}, not {value!r}")
    return value


def _convert_tuple(hints: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise UsageError(f"{where}: expected a list, not {value!r}")
    if hints[-1] is Ellipsis:
        hints = (hints[0],) * len(value)
    if len(hints) != len(value):
        raise UsageError(f"{where}: expected {len(hints)} entries, not {value!r}")
    return tuple(
        _convert(hint, entry, f"{where}[{i}]")
        for i, (hint, entry) in enumerate(zip(hints, value, strict=True))
    )


def first_difference(
    one: Mapping[str, Any], other: Mapping[str, Any], where: str = ""
) -> tuple[str, Any, Any] | None:
    """Return where two mappings of plain data differ first, and both values there."""
    for name in sorted({*one, *other}):
        ours, theirs = one.get(name), other.get(name)
        place = f"{where}.{name}" if where else name
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            difference = first_difference(ours, theirs, place)
            if difference is not None:
                return difference
        elif ours != theirs:
            return place, ours, theirs
    return None


def to_toml(data: Mapping[str, Any]) -> str:
    """Write plain data as TOML: scalars first, then tables, then arrays of tables."""
    lines = [f"{name} = {_inline(v)}" for name, v in data.items() if not _is_table(v)]
    for name, value in data.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {_inline(v)}" for key, v in value.items()]
        elif _is_table(value):
            for entry in value:
                lines += ["", f"[[{name}]]"]
                lines += [f"{key} = {_inline(v)}" for key, v in entry.items()]
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    tables = isinstance(value, list) and value and isinstance(value[0], Mapping)
    return isinstance(value, Mapping) or bool(tables)


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{_key(k)} = {_inline(v)}" for k, v in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    # JSON's strings, numbers and booleans are TOML's, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _inline(name)
