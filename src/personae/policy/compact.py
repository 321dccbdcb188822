"""Weights of many tasks in few bits, and back again, exactly.

With a signed-constant backbone a network under a binary mask has weights -c, 0 and c
only. The signs belong to the backbone, so that each task costs one bit a weight, and
all tasks together one more.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from personae.bits import pack_bits, pack_rows, unpack_bits
from personae.errors import require
from personae.policy.manifest import LayerSpec
from personae.policy.tensors import check

Arrays = Mapping[str, np.ndarray]


def pack(
    name: str,
    weights: Sequence[np.ndarray],
    backbone: np.ndarray | None,
    half: bool,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return how a layer's weights on each task are stored, and the arrays for it.

    `backbone` has its weights before any mask, if it is one of signed constants.
    `half` stores numbers with 16 bits.
    """
    if backbone is not None:
        size = np.abs(backbone).max()
        on = np.stack([weight != 0 for weight in weights])
        turned = np.stack([weight == -backbone for weight in weights]) & on
        signed = np.where(turned, -backbone, backbone)
        if (np.abs(backbone) == size).all() and _same(weights, np.where(on, signed, 0)):
            arrays = {
                f"signs/{name}": pack_bits(backbone > 0),
                f"masks/{name}": pack_rows(on),
            }
            if turned.any():
                arrays[f"turned/{name}"] = pack_rows(turned)
            stored = "signed-bits" if turned.any() else "bits"
            return {"stored": stored, "constant": float(size)}, arrays
    stored, stacked = pack_numbers(weights, half)
    return {"stored": stored}, {f"weights/{name}": stacked}


def pack_numbers(
    values: Sequence[np.ndarray], half: bool
) -> tuple[Literal["shared", "own"], np.ndarray]:
    """Return numbers for each task, or once if they are the same for all."""
    same = _same(values, [values[0]] * len(values))
    stacked = np.stack(values[:1] if same else values)
    if half:
        with np.errstate(over="ignore"):
            halved = stacked.astype(np.float16)
        fits = np.isfinite(halved).all() or not np.isfinite(stacked).all()
        require(bool(fits), "numbers of this agent are too large for 16 bits")
        stacked = halved
    return "shared" if same else "own", stacked


def _same(weights: Sequence[np.ndarray], others: Any) -> bool:
    return all(map(np.array_equal, weights, others))


PARTS = {
    "bits": ("signs", "masks"),
    "signed-bits": ("signs", "masks", "turned"),
    "shared": ("weights",),
    "own": ("weights",),
}
"""The arrays of a layer, by how it is stored."""


def parts_of(layer: LayerSpec) -> list[str]:
    """Return the names of a layer's arrays."""
    parts = PARTS[layer.stored] + (("biases",) if layer.bias else ())
    return [f"{part}/{layer.name}" for part in parts]


def check_layer(layer: LayerSpec, arrays: Arrays, tasks: int) -> None:
    """Refuse arrays that are not what a layer needs, before any is made from them."""
    in_bytes = -(-math.prod(layer.shape) // 8)
    shapes = {
        "signs": (in_bytes,),
        "masks": (tasks, in_bytes),
        "turned": (tasks, in_bytes),
        "weights": (tasks if layer.stored == "own" else 1, *layer.shape),
        "biases": (tasks if layer.bias == "own" else 1, layer.shape[0]),
    }
    for name in parts_of(layer):
        part = name.split("/")[0]
        kinds = ("f2", "f4") if part in ("weights", "biases") else ("u1",)
        check_array(arrays, name, shapes[part], kinds)


def check_array(
    arrays: Arrays, name: str, shape: tuple[int, ...], kinds: tuple[str, ...]
) -> None:
    """Refuse an array that is not there, or of another shape or type."""
    check(name in arrays, f"it lacks {name!r}")
    found = arrays[name]
    fits = found.shape == shape and found.dtype.str[1:] in kinds
    check(fits, f"{name!r} is {found.dtype}{list(found.shape)}, not {list(shape)}")


def weight_of(layer: LayerSpec, arrays: Arrays, task: int) -> np.ndarray:
    """Return a layer's weights on a task."""
    name = layer.name
    if layer.constant is None:
        rows = arrays[f"weights/{name}"]
        row = rows[0 if layer.stored == "shared" else task]
        return np.ascontiguousarray(row, np.float32)
    on = unpack_bits(arrays[f"masks/{name}"][task], layer.shape)
    positive = unpack_bits(arrays[f"signs/{name}"], layer.shape)
    if layer.stored == "signed-bits":
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
