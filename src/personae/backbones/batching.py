"""Networks applied to many observations at once."""

import math
from collections.abc import Callable
from typing import TypeVar

import jax
from jaxtyping import Array, PyTree

from personae.types import Network, PolicyAndValue

T = TypeVar("T")
IMAGES_AT_ONCE = 64
"""Images that a CPU takes at a time: they and their activations stay in its cache. All
at once take up to twice as long; accelerators are the other way round."""
LARGE_IMAGE = 32 * 32
"""Numbers in an image from which on batching pays."""


def apply_network(
    network: Network, observations: PyTree[Array], axes: int = 1
) -> PolicyAndValue:
    """Apply a network to observations with several axes in front.

    It is `jax.vmap`, but on a CPU it takes a few images at a time. Gradients would have
    to keep the activations of all of them, so for those it is no faster.

    Args:
        network: A function of one observation.
        observations: Observations whose leaves have `axes` leading axes.
        axes: The number of leading axes.

    Returns:
        The policies and values, with the same leading axes.
    """
    lead = jax.tree.leaves(observations)[0].shape[:axes]
    if not should_batch(observations, axes) or math.prod(lead) <= IMAGES_AT_ONCE:
        for _ in range(axes):
            network = jax.vmap(network)
        return network(observations)
    per_sample = jax.tree.map(lambda x: x.reshape(-1, *x.shape[axes:]), observations)
    outputs = jax.lax.map(network, per_sample, batch_size=IMAGES_AT_ONCE)
    return jax.tree.map(lambda x: x.reshape(*lead, *x.shape[1:]), outputs)


def map_agents(
    function: Callable[..., T], observations: PyTree[Array], axes: int
) -> Callable[..., T]:
    """Return a function of all agents, made from a function of one agent.

    It is `jax.vmap`, but where images are taken a few at a time, agents are taken one
    after another.

    Args:
        function: A function of one agent's arguments.
        observations: The observations of all agents, with `axes` leading axes; they
            only decide which way is taken.
        axes: The number of leading axes, that of the agents included.
    """
    if not should_batch(observations, axes):
        return jax.vmap(function)
    # With `vmap` each batch would hold images of all agents, too many for the cache.
    return lambda *arguments: jax.lax.map(lambda agent: function(*agent), arguments)


def should_batch(observations: PyTree[Array], axes: int) -> bool:
    """Tell whether observations with so many leading axes are large images on a CPU."""
    shapes = [leaf.shape[axes:] for leaf in jax.tree.leaves(observations)]
    images = any(len(s) >= 3 and math.prod(s) >= LARGE_IMAGE for s in shapes)
    # Asked while a program is traced, so it costs nothing in the program itself.
    return images and jax.default_backend() == "cpu"
