"""Masks and signs as bits: what a learned task costs once it need not be composed."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, UInt8


def pack_bits(bits: Bool[np.ndarray, "..."]) -> UInt8[np.ndarray, " bytes"]:
    """Pack booleans, row-major, eight to a byte."""
    return np.packbits(np.ravel(bits))


def unpack_bits(
    packed: UInt8[np.ndarray, " bytes"], shape: Sequence[int]
) -> Bool[np.ndarray, "..."]:
    """Undo `pack_bits` for an array of this shape."""
    count = math.prod(shape)
    if packed.size != -(-count // 8):
        raise ValueError(f"{packed.size} bytes cannot hold the bits of shape {shape}")
    return np.unpackbits(packed, count=count).astype(bool).reshape(shape)
