"""Atomic writes, and reads that trust nothing."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as encode_tensors

from personae.errors import PersonaeError
from personae.serialise import PlainData

Arrays: TypeAlias = Mapping[str, np.ndarray]
"""Arrays by name."""


class DamagedFileError(PersonaeError):
    """A file was cut off, changed, or not written by this package."""


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn an error into one that names the file, and that nothing else is lost."""
    try:
        yield
    except OSError as error:
        raise PersonaeError(
            f"cannot write {path}: {error.strerror}. All that was saved before is "
            "whole; --resume continues from there"
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
                # Otherwise the rename could reach the disk before the data.
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)  # its space may be needed
            raise


def write_tensors(path: Path, tensors: Arrays, metadata: PlainData) -> None:
    """Write named arrays with metadata as one safetensors file."""
    # The encoder writes the memory of an array as it lies there, strides or not.
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    text = {"personae": json.dumps(dict(metadata))}
    write_atomically(path, encode_tensors(contiguous, text))


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], PlainData]:
    """Read a file that `write_tensors` wrote; nothing in it is ever executed."""
    try:
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = json.loads((file.metadata() or {})["personae"])
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise DamagedFileError(
            f"{path} is not a whole file of Personae: {error!r}"
        ) from error
    return tensors, metadata
