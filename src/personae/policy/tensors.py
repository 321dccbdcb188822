"""Named arrays out of a safetensors file, with NumPy alone and without trust.

The file may come from a stranger: nothing in it is executed, every size is checked
against the file's own before anything is allocated, and what does not fit is refused.
"""

import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from personae.errors import PersonaeError

LONGEST_HEADER = 1 << 20
DEEPEST = 32
"""Tables in tables of a manifest."""
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
    """A file that is no agent, or not a whole one."""


def check(holds: bool, message: str) -> None:
    """Refuse a file unless something holds."""
    if not holds:
        raise BadAgentError(message)


def read_file(path: Path) -> bytes:
    """Read a plain file, as long as it is when it is opened."""
    try:
        run = (path / "run.json").exists()
        hint = ": it is a run, from which `personae policy export` makes one" * run
        check(stat.S_ISREG(os.stat(path).st_mode), f"{path} is not a plain file{hint}")
        with open(path, "rb") as file:
            return file.read(os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise BadAgentError(f"{path} cannot be read: {error.strerror}") from error


def read_tensors(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays, as views of the data, and the metadata."""
    check(len(data) >= 8, f"it is only {len(data)} bytes long")
    length = int.from_bytes(data[:8], "little")
    longest = min(len(data) - 8, LONGEST_HEADER)
    check(length <= longest, f"its header would be {length} bytes long")
    header = read_json(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    check(isinstance(metadata, dict), "its metadata is no table")
    start, end = 8 + length, 0
    arrays = {}
    for name, entry in sorted(header.items(), key=lambda item: _begin(item[1])):
        kind, shape, begin, stop = _entry(name, entry)
        size = math.prod(shape) * kind.itemsize
        check(begin == end and stop == begin + size, f"{name!r} is not where it ends")
        check(start + stop <= len(data), f"{name!r} is cut off")
        flat = np.frombuffer(data, kind, math.prod(shape), start + begin)
        arrays[name], end = flat.reshape(shape), stop
    check(start + end == len(data), "something follows its last array")
    return arrays, metadata


def read_json(text: bytes | str) -> dict[str, Any]:
    """Return the fields of a JSON object."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    try:
        found = json.loads(text, object_pairs_hook=_table, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise BadAgentError(f"what should be JSON is not: {error}") from error
    check(isinstance(found, dict), "its header is no table")
    check(_depth(found) <= DEEPEST, "its header has tables in tables in tables")
    return dict(found)


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    check(len(table) == len(pairs), "its header has fields of one name")
    return table


def _no_number(text: str) -> None:
    raise BadAgentError(f"{text} is no number of JSON's")


def _depth(value: Any) -> int:
    """Return how many tables and lists are in each other, without recursion."""
    depth, inside = 0, [value]
    while inside:
        depth += 1
        tables = [each for each in inside if isinstance(each, dict | list)]
        parts = [t.values() if isinstance(t, dict) else t for t in tables]
        inside = [each for part in parts for each in part]
    return depth


def _begin(entry: Any) -> int:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    return offsets[0] if _are_sizes(offsets) and offsets else -1


def _are_sizes(values: Any) -> bool:
    """Tell whether it is a list of numbers that sizes may be."""
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < 1 << 48 for value in values
    )


def _entry(name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    check(isinstance(entry, dict), f"{name!r} is not described")
    kind, shape = entry.get("dtype"), entry.get("shape")
    offsets = entry.get("data_offsets")
    check(isinstance(kind, str) and kind in DTYPES, f"{name!r} is of type {kind!r}")
    check(_are_sizes(shape) and len(shape) <= 8, f"{name!r} has the shape {shape!r}")
    placed = _are_sizes(offsets) and len(offsets) == 2
    check(placed, f"{name!r} lies at {offsets!r}")
    return DTYPES[kind], tuple(shape), *offsets
