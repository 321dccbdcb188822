"""Conversion of frozen dataclasses to and from plain data, JSON and TOML.

Reading is strict: an unknown field or a value of the wrong type is an error that names
the field, the value and the expected type.
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
"""The data of JSON and TOML: nested dicts, lists and scalars."""
LEFT_OUT = {"left out": True}
"""Metadata of a field that is not written while it has its default. It marks fields
added later, so that the plain data of older settings does not change."""


def to_plain(value: Any) -> Any:
    """Return a value, such as a dataclass, as nested dicts, lists and scalars."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {f.name: to_plain(v) for f, v in fields.items() if _is_written(f, v)}
    if isinstance(value, Mapping):
        return {str(name): to_plain(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    return value


def _is_written(field: "dataclasses.Field[Any]", value: object) -> bool:
    # TOML has no null, so a field that is None is left out as well.
    omitted = field.metadata == LEFT_OUT and value == field.default
    return value is not None and not omitted


def from_plain(cls: type[T], data: object, path: str) -> T:
    """Build a dataclass from plain data.

    Args:
        cls: The dataclass, whose fields may be dataclasses themselves.
        data: A mapping with its fields; those with a default may be missing.
        path: The name of the data in error messages, such as "ct8.toml".

    Raises:
        UsageError: If a field is unknown, missing, or of another type.
    """
    if not isinstance(data, Mapping):
        raise UsageError(f"{path}: expected a table of fields, not {data!r}")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in data:
        if name not in fields:
            raise nearest_match_error(f"field of {path}", name, fields)
    for name, field in fields.items():
        no_default = field.default is field.default_factory is dataclasses.MISSING
        if no_default and name not in data:
            raise UsageError(f"{path}: the field {name!r} is missing")
    values = {
        name: _convert(hints[name], value, f"{path}.{name}")
        for name, value in data.items()
    }
    try:
        return cls(**values)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


def _convert(hint: Any, value: Any, path: str) -> Any:
    """Return a value as its type hint wants it, or raise an error that names both."""
    if dataclasses.is_dataclass(hint):
        return from_plain(hint, value, path)  # type: ignore[arg-type]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        inner = [a for a in arguments if a is not type(None)]
        return None if value is None else _convert(inner[0], value, path)
    if origin is Literal:
        if value not in arguments:
            raise nearest_match_error(path, str(value), map(str, arguments))
        return value
    if origin is tuple:
        return _convert_tuple(arguments, value, path)
    if origin is Mapping:
        # Keyword arguments of an environment: only it knows their types.
        if not isinstance(value, Mapping):
            raise UsageError(f"{path}: expected a table, not {value!r}")
        return value
    if origin is not None or hint is Any:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise UsageError(f"{path}: the number is too large") from error
    # In Python True is also the integer 1, but a count of `true` is a mistake.
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        raise UsageError(f"{path}: expected {hint.__name__}, not {value!r}")
    return value


def _convert_tuple(hints: tuple[Any, ...], value: object, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise UsageError(f"{path}: expected a list, not {value!r}")
    if hints[-1] is Ellipsis:
        hints = (hints[0],) * len(value)
    if len(hints) != len(value):
        raise UsageError(f"{path}: expected {len(hints)} entries, not {value!r}")
    return tuple(
        _convert(hint, entry, f"{path}[{i}]")
        for i, (hint, entry) in enumerate(zip(hints, value, strict=True))
    )


def first_difference(
    one: Mapping[str, object], other: Mapping[str, object], path: str = ""
) -> tuple[str, object, object] | None:
    """Return the first field in which two mappings differ, and both its values.

    Fields are visited in alphabetical order, and a field of a table has a dotted name.
    The result is None if the mappings are equal.
    """
    for name in sorted({*one, *other}):
        value, other_value = one.get(name), other.get(name)
        field_path = f"{path}.{name}" if path else name
        if isinstance(value, Mapping) and isinstance(other_value, Mapping):
            difference = first_difference(value, other_value, field_path)
            if difference is not None:
                return difference
        elif value != other_value:
            return field_path, value, other_value
    return None


def to_toml(data: PlainData) -> str:
    """Return plain data as TOML text."""
    # Scalars first: TOML counts any that follow a table as the table's.
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


def _is_table(value: object) -> bool:
    tables = isinstance(value, list) and value and isinstance(value[0], Mapping)
    return isinstance(value, Mapping) or bool(tables)


def _inline(value: object) -> str:
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{_key(k)} = {_inline(v)}" for k, v in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    # JSON's strings, numbers and booleans are TOML's, but for one control character.
    # Not as ASCII: JSON would write surrogate pairs, which TOML refuses.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _inline(name)
