"""Networks that look at many observations at once."""

import math
from typing import Any

import jax
from jaxtyping import Array, PyTree

from personae.types import Network

IMAGES_AT_ONCE = 96
"""On a CPU so many images, and what is computed from them, stay in its cache. All at
once take up to three times as long; accelerators are the other way round."""
LARGE = 32 * 32
"""Numbers in an image from which on that counts."""


def look(network: Network, observations: PyTree[Array], axes: int = 1) -> Any:
    """Return policies and values of observations with so many axes in front.

    It is `jax.vmap`, but on a CPU looks at a few images at a time, and computes what
    gradients need of them once more rather than keep it.
    """
    lead = jax.tree.leaves(observations)[0].shape[:axes]
    if not few_at_a_time(observations, axes) or math.prod(lead) <= IMAGES_AT_ONCE:
        for _ in range(axes):
            network = jax.vmap(network)
        return network(observations)
    one_by_one = jax.tree.map(lambda x: x.reshape(-1, *x.shape[axes:]), observations)
    looks = jax.checkpoint(network)
    seen = jax.lax.map(looks, one_by_one, batch_size=IMAGES_AT_ONCE)
    return jax.tree.map(lambda x: x.reshape(*lead, *x.shape[1:]), seen)


def few_at_a_time(observations: PyTree[Array], axes: int) -> bool:
    """Tell whether these are images, so many axes in front, on a CPU."""
    shapes = [leaf.shape[axes:] for leaf in jax.tree.leaves(observations)]
    images = any(len(each) >= 3 and math.prod(each) >= LARGE for each in shapes)
    return images and jax.default_backend() == "cpu"
