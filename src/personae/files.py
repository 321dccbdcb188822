"""Atomic writes, and reads that trust nothing."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as encode_tensors

from personae.errors import PersonaeError

Arrays: TypeAlias = Mapping[str, np.ndarray]
"""Arrays by name."""


class DamagedFileError(PersonaeError):
    """A file was cut off, changed, or never one of ours."""


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Say what could not be written, and that nothing else is lost."""
    try:
        yield
    except OSError as error:
        raise PersonaeError(
            f"cannot write {path}: {error.strerror}. What was saved before is whole; "
            "--resume goes on from there"
        ) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the whole new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)  # the room it takes may be needed
            raise


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]
) -> None:
    """Write named arrays with metadata as one safetensors file."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    text = {"personae": json.dumps(dict(metadata))}
    write_atomically(path, encode_tensors(contiguous, text))


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a file that `write_tensors` wrote; nothing in it is ever executed."""
    try:
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = json.loads((file.metadata() or {})["personae"])
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise DamagedFileError(
            f"{path} is not a whole file of ours: {error!r}"
        ) from error
    return tensors, metadata
