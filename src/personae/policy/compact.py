"""Weights of many tasks in few bits, and back again, exactly.

With a signed-constant backbone a network under a binary mask has weights -c, 0 and c
only. The signs belong to the backbone, so that each task costs one bit a weight, and
all tasks together one more.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from personae.bits import pack_bits, pack_rows, unpack_bits
from personae.errors import require
from personae.policy.manifest import LayerSpec, Storage
from personae.policy.tensors import Arrays, check


class PackedWeights(NamedTuple):
    """The weights of one layer on all tasks, as a file stores them."""

    storage: Storage
    constant: float | None
    """The size of every weight, where they are bits."""
    arrays: dict[str, np.ndarray]


def pack_weights(
    name: str,
    weights: Sequence[np.ndarray],
    backbone: np.ndarray | None,
    half: bool,
) -> PackedWeights:
    """Pack a layer's weights on each task in as few bits as hold them exactly.

    Args:
        name: The layer's name.
        weights: Its weights on each task.
        backbone: Its weights before any mask, if they are signed constants.
        half: Store numbers with 16 bits.
    """
    packed = None if backbone is None else _pack_masked(name, weights, backbone)
    if packed is not None:
        return packed
    storage, stacked = pack_numbers(weights, half)
    return PackedWeights(storage, None, {f"weights/{name}": stacked})


def _pack_masked(
    name: str, weights: Sequence[np.ndarray], backbone: np.ndarray
) -> PackedWeights | None:
    """Return weights as bits, or None if they are not of the backbone under masks."""
    size = np.abs(backbone).max()
    # No weight of a signed-constant backbone is 0: a 0 comes from the mask.
    on = np.stack([weight != 0 for weight in weights])
    inverted = np.stack([weight == -backbone for weight in weights]) & on
    signed = np.where(inverted, -backbone, backbone)
    # The numbers decide, not the method: continuous masks, say, do not fit into bits.
    constant = (np.abs(backbone) == size).all()
    if not (constant and _all_equal(weights, np.where(on, signed, 0))):
        return None
    arrays = {f"signs/{name}": pack_bits(backbone > 0), f"masks/{name}": pack_rows(on)}
    if inverted.any():
        arrays[f"turned/{name}"] = pack_rows(inverted)
    storage: Storage = "signed-bits" if inverted.any() else "bits"
    return PackedWeights(storage, float(size), arrays)


def pack_numbers(
    values: Sequence[np.ndarray], half: bool
) -> tuple[Literal["shared", "per-task"], np.ndarray]:
    """Return numbers of each task, or one array if they are the same on all tasks."""
    same = _all_equal(values, [values[0]] * len(values))
    stacked = np.stack(values[:1] if same else values)
    if half:
        # Numbers above 65,504 become infinite, which the next check finds.
        with np.errstate(over="ignore"):
            halved = stacked.astype(np.float16)
        fits = np.isfinite(halved).all() or not np.isfinite(stacked).all()
        require(bool(fits), "numbers of this agent are too large for 16 bits")
        stacked = halved
    return "shared" if same else "per-task", stacked


def _all_equal(weights: Sequence[np.ndarray], others: Iterable[np.ndarray]) -> bool:
    return all(map(np.array_equal, weights, others))


PARTS = {
    "bits": ("signs", "masks"),
    "signed-bits": ("signs", "masks", "turned"),
    "shared": ("weights",),
    "per-task": ("weights",),
}
"""The arrays of a layer, by its storage."""


def parts_of(layer: LayerSpec) -> list[str]:
    """Return the names of a layer's arrays."""
    parts = PARTS[layer.storage] + (("biases",) if layer.bias else ())
    return [f"{part}/{layer.name}" for part in parts]


def check_layer(layer: LayerSpec, arrays: Arrays, tasks: int) -> None:
    """Raise an error unless a layer's arrays have the shapes and types it needs.

    This comes before anything is made from them.
    """
    num_bytes = -(-math.prod(layer.shape) // 8)
    shapes = {
        "signs": (num_bytes,),
        "masks": (tasks, num_bytes),
        "turned": (tasks, num_bytes),
        "weights": (tasks if layer.storage == "per-task" else 1, *layer.shape),
        "biases": (tasks if layer.bias == "per-task" else 1, layer.shape[0]),
    }
    for name in parts_of(layer):
        part = name.split("/")[0]
        dtypes = ("f2", "f4") if part in ("weights", "biases") else ("u1",)
        check_array(arrays, name, shapes[part], dtypes)


def check_array(
    arrays: Arrays, name: str, shape: tuple[int, ...], dtypes: tuple[str, ...]
) -> None:
    """Raise an error unless an array exists with this shape and one of these types."""
    check(name in arrays, f"it lacks {name!r}")
    array = arrays[name]
    fits = array.shape == shape and array.dtype.str[1:] in dtypes
    check(fits, f"{name!r} is {array.dtype}{list(array.shape)}, not {list(shape)}")


def weight_of(layer: LayerSpec, arrays: Arrays, task: int) -> np.ndarray:
    """Return a layer's weights on a task."""
    name = layer.name
    if layer.constant is None:
        rows = arrays[f"weights/{name}"]
        row = rows[0 if layer.storage == "shared" else task]
        # Computed with 32 bits, as in training, also if they are stored with 16.
        return np.ascontiguousarray(row, np.float32)
    on = unpack_bits(arrays[f"masks/{name}"][task], layer.shape)
    positive = unpack_bits(arrays[f"signs/{name}"], layer.shape)
    if layer.storage == "signed-bits":
        positive = positive ^ unpack_bits(arrays[f"turned/{name}"][task], layer.shape)
    size = np.float32(layer.constant)
    # A look-up with the two bits as its index: off, off, negative, positive.
    values = np.array([0, 0, -size, size], np.float32)
    return values[2 * on + positive]


def bias_of(layer: LayerSpec, arrays: Arrays, task: int) -> np.ndarray | None:
    """Return a layer's bias on a task, if it has one."""
    if layer.bias is None:
        return None
    rows = arrays[f"biases/{layer.name}"]
    return np.ascontiguousarray(rows[0 if layer.bias == "shared" else task], np.float32)
