"""Weights of many tasks in few bits, and back again, exactly.

With a signed-constant backbone a network under a binary mask has weights -c, 0 and c
only. The signs belong to the backbone, so that each task costs one bit a weight, and
all tasks together one more.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
    `half` stores numbers that differ between tasks with 16 bits.
    """
    if backbone is not None:
        size = np.abs(backbone).max()
        on = np.stack([weight != 0 for weight in weights])
        turned = np.stack([weight == -backbone for weight in weights]) & on
        signed = np.where(turned, -backbone, backbone)
        if (np.abs(backbone) == size).all() and _same(weights, np.where(on, signed, 0)):
            arrays = {
                f"signs/{name}": np.packbits(backbone > 0),
                f"masks/{name}": _packed(on),
            }
            if turned.any():
                arrays[f"turned/{name}"] = _packed(turned)
            stored = "signed-bits" if turned.any() else "bits"
            return {"stored": stored, "constant": float(size)}, arrays
    if _same(weights, [weights[0]] * len(weights)):
        return {"stored": "shared"}, {f"weights/{name}": weights[0][None]}
    stacked = np.stack(weights).astype(np.float16 if half else np.float32)
    return {"stored": "own"}, {f"weights/{name}": stacked}


def _same(weights: Sequence[np.ndarray], others: Any) -> bool:
    return all(map(np.array_equal, weights, others))


def _packed(bits: np.ndarray) -> np.ndarray:
    return np.packbits(bits.reshape(len(bits), -1), axis=1)


def check_layer(layer: LayerSpec, arrays: Arrays, tasks: int) -> None:
    """Refuse arrays that are not what a layer needs, before any is made from them."""
    count, name = math.prod(layer.shape), layer.name
    in_bytes = -(-count // 8)
    bits = {"signs": (in_bytes,), "masks": (tasks, in_bytes)}
    wanted = {
        "bits": bits,
        "signed-bits": bits | {"turned": (tasks, in_bytes)},
        "shared": {"weights": (1, *layer.shape)},
        "own": {"weights": (tasks, *layer.shape)},
    }[layer.stored]
    for part, shape in wanted.items():
        kinds = ("f2", "f4") if part == "weights" else ("u1",)
        check_array(arrays, f"{part}/{name}", shape, kinds)
    if layer.bias is not None:
        rows = 1 if layer.bias == "shared" else tasks
        check_array(arrays, f"biases/{name}", (rows, layer.shape[0]), ("f2", "f4"))


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
    on = _unpacked(arrays[f"masks/{name}"][task], layer.shape)
    positive = _unpacked(arrays[f"signs/{name}"], layer.shape)
    if layer.stored == "signed-bits":
        positive = positive ^ _unpacked(arrays[f"turned/{name}"][task], layer.shape)
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


def _unpacked(packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.unpackbits(packed, count=math.prod(shape)).reshape(shape)
