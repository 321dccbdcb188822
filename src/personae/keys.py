"""Random keys of JAX as plain numbers, so that they can be stored."""

from typing import Any

import jax
import jax.numpy as jnp


def is_key(leaf: Any) -> bool:
    """Tell whether an array, or the shape of one, holds random keys."""
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def key_data(leaf: Any) -> Any:
    """Return random keys as plain numbers, and anything else as it is."""
    return jax.random.key_data(leaf) if is_key(leaf) else leaf
