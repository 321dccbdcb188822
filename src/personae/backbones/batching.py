"""Networks that look at many observations at once."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jaxtyping import Array, PyTree

from personae.types import Network

T = TypeVar("T")
IMAGES_AT_ONCE = 64
"""On a CPU so many images, and what is computed from them, stay in its cache. All at
once take up to twice as long; accelerators are the other way round."""
LARGE = 32 * 32
"""Numbers in an image from which on that counts."""


def apply_network(network: Network, observations: PyTree[Array], axes: int = 1) -> Any:
    """Return policies and values of observations with so many axes in front.

    It is `jax.vmap`, but on a CPU looks at a few images at a time. Gradients would have
    to keep what was computed from all of them, so for those it is no faster.
    """
    lead = jax.tree.leaves(observations)[0].shape[:axes]
    if not should_batch(observations, axes) or math.prod(lead) <= IMAGES_AT_ONCE:
        for _ in range(axes):
            network = jax.vmap(network)
        return network(observations)
    per_sample = jax.tree.map(lambda x: x.reshape(-1, *x.shape[axes:]), observations)
    seen = jax.lax.map(network, per_sample, batch_size=IMAGES_AT_ONCE)
    return jax.tree.map(lambda x: x.reshape(*lead, *x.shape[1:]), seen)


def map_agents(of_one: Callable[..., T], observations: PyTree[Array], axes: int) -> Any:
    """Return a function of all agents that see such observations, from one of one.

    It, too, is `jax.vmap`, but where images are taken a few at a time, so are agents.
    """
    if not should_batch(observations, axes):
        return jax.vmap(of_one)
    return lambda *given: jax.lax.map(lambda one: of_one(*one), given)


def should_batch(observations: PyTree[Array], axes: int) -> bool:
    """Tell whether these are images, so many axes in front, on a CPU."""
    shapes = [leaf.shape[axes:] for leaf in jax.tree.leaves(observations)]
    images = any(len(each) >= 3 and math.prod(each) >= LARGE for each in shapes)
    return images and jax.default_backend() == "cpu"
