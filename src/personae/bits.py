"""Masks and signs as bits, eight to a byte.

This is the only module that packs and unpacks bits: runs on disk and agents in files
then have one layout. It needs NumPy alone, as agents are used without JAX.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def pack_bits(bits: np.ndarray) -> np.ndarray:
    """Pack booleans in row-major order, eight to a byte."""
    return np.packbits(np.ravel(bits))


def pack_rows(bits: np.ndarray) -> np.ndarray:
    """Pack each row of the first axis as `pack_bits` does: `[row, byte]`."""
    return np.packbits(bits.reshape(len(bits), -1), axis=1)


def pack_bits_in_jax(bits: Any) -> Any:
    """Pack an array of JAX as `pack_bits` does, also inside a compiled program."""
    # Imported here, and not named in the signature: importing JAX takes a second, and
    # a machine that only acts may not have it.
    import jax.numpy as jnp

    return jnp.packbits(jnp.ravel(bits))


def unpack_bits(packed: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return the booleans of `pack_bits` or `pack_rows`.

    Args:
        packed: Bytes, `[..., byte]`.
        shape: The shape of what one row of bytes holds.

    Returns:
        Booleans, `[..., *shape]`.
    """
    count = math.prod(shape)
    if packed.shape[-1] != -(-count // 8):
        raise ValueError(
            f"{packed.shape[-1]} bytes cannot hold the bits of shape {tuple(shape)}"
        )
    bits = np.unpackbits(packed, axis=-1, count=count)
    return bits.astype(bool).reshape((*packed.shape[:-1], *shape))
