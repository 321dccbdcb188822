"""Named arrays of a safetensors file, read with NumPy alone and without trust.

The file may come from a stranger: nothing in it is executed, every size is checked
against the file's own before anything is allocated, and a file that does not fit is
refused. The safetensors package would be a dependency for machines that only act.
"""

import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from personae.errors import PersonaeError
from personae.serialise import PlainData

Arrays: TypeAlias = Mapping[str, np.ndarray]
"""Arrays by name; `personae.files` has the same alias, but imports safetensors."""
MAX_HEADER_BYTES = 1 << 20
MAX_DEPTH = 32
"""Levels of nested tables and lists in a manifest."""
MAX_SIZE = 1 << 48
"""Larger than any size or offset in a file."""
DTYPES = {
    name: np.dtype(kind).newbyteorder("<")
    for name, kind in {
        "U8": np.uint8,
        "F16": np.float16,
        "F32": np.float32,
        "I32": np.int32,
        "I64": np.int64,
    }.items()
}


class BadAgentError(PersonaeError):
    """A file does not hold an agent, or is damaged."""


def check(holds: bool, message: str) -> None:
    """Raise an error about a bad file unless something holds."""
    if not holds:
        raise BadAgentError(message)


def read_file(path: Path) -> bytes:
    """Read a regular file, up to the length that it has when it is opened."""
    try:
        run = (path / "run.json").exists()
        hint = ": it is a run, from which `personae policy export` makes one" * run
        # Pipes and devices have no length, and reading one may never end.
        check(stat.S_ISREG(os.stat(path).st_mode), f"{path} is not a plain file{hint}")
        with open(path, "rb") as file:
            return file.read(os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise BadAgentError(f"{path} cannot be read: {error.strerror}") from error


def read_tensors(data: bytes) -> tuple[dict[str, np.ndarray], PlainData]:
    """Return the arrays, as views of the data, and the metadata."""
    check(len(data) >= 8, f"it is only {len(data)} bytes long")
    length = int.from_bytes(data[:8], "little")
    longest = min(len(data) - 8, MAX_HEADER_BYTES)
    check(length <= longest, f"its header would be {length} bytes long")
    header = read_json(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    check(isinstance(metadata, dict), "its metadata is no table")
    start, end = 8 + length, 0
    arrays = {}
    # In the order of their offsets, so that arrays can be held to leave no gaps.
    for name, entry in sorted(header.items(), key=lambda item: _first_byte(item[1])):
        dtype, shape, begin, stop = _parse_entry(name, entry)
        size = math.prod(shape) * dtype.itemsize
        contiguous = begin == end and stop == begin + size
        check(contiguous, f"{name!r} does not lie next to the array before it")
        check(start + stop <= len(data), f"{name!r} is cut off")
        flat = np.frombuffer(data, dtype, math.prod(shape), start + begin)
        arrays[name], end = flat.reshape(shape), stop
    check(start + end == len(data), "something follows its last array")
    return arrays, metadata


def read_json(text: bytes | str) -> PlainData:
    """Return the fields of a JSON object."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    try:
        fields = json.loads(
            text, object_pairs_hook=_unique_fields, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise BadAgentError(f"what should be JSON is not: {error}") from error
    check(isinstance(fields, dict), "its header is no table")
    check(_depth(fields) <= MAX_DEPTH, "its header has tables in tables in tables")
    return dict(fields)


def _unique_fields(pairs: list[tuple[str, object]]) -> PlainData:
    # With two fields of one name, other readers might see another file.
    table = dict(pairs)
    check(len(table) == len(pairs), "its header has fields of one name")
    return table


def _refuse_constant(text: str) -> None:
    """Refuse NaN and infinities, which Python reads and JSON does not have."""
    raise BadAgentError(f"{text} is no number of JSON's")


def _depth(value: object) -> int:
    """Count the levels of nested tables and lists."""
    # Without recursion, which a hostile file would exhaust.
    depth, level = 0, [value]
    while level:
        depth += 1
        tables = [node for node in level if isinstance(node, dict | list)]
        parts = [t.values() if isinstance(t, dict) else t for t in tables]
        level = [node for part in parts for node in part]
    return depth


def _first_byte(entry: object) -> int:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    return int(offsets[0]) if _are_sizes(offsets) and offsets else -1


def _are_sizes(values: Any) -> bool:
    """Tell whether a value is a list of numbers that sizes or offsets may be."""
    # Not isinstance: to Python, True is an integer.
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < MAX_SIZE for value in values
    )


def _parse_entry(
    name: str, entry: Any
) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """Return the type and the shape of an array, and its first and last offset."""
    check(isinstance(entry, dict), f"{name!r} is not described")
    dtype, shape = entry.get("dtype"), entry.get("shape")
    offsets = entry.get("data_offsets")
    check(isinstance(dtype, str) and dtype in DTYPES, f"{name!r} is of type {dtype!r}")
    check(_are_sizes(shape) and len(shape) <= 8, f"{name!r} has the shape {shape!r}")
    valid = _are_sizes(offsets) and len(offsets) == 2
    check(valid, f"{name!r} lies at {offsets!r}")
    return DTYPES[dtype], tuple(shape), *offsets
