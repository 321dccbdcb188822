"""Random keys of JAX as numbers, so that they can be stored."""

from typing import TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

Leaf: TypeAlias = jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct
T = TypeVar("T", bound=Leaf)


def is_key(leaf: Leaf) -> bool:
    """Tell whether an array, or the shape of one, holds random keys."""
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def key_data(leaf: T) -> T | jax.Array:
    """Return random keys as numbers, and other arrays unchanged."""
    # NumPy has no type for keys, so they could be neither fetched nor saved.
    return jax.random.key_data(cast(jax.Array, leaf)) if is_key(leaf) else leaf
