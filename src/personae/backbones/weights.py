"""The weights among the leaves of a network, and the ways to draw them.

Any Equinox network will do: a *weight* is a floating-point array of two or more
dimensions that is not called `bias` (Equinox gives convolutions biases of that rank).
Everything else, such as a normalisation's scale, keeps its first value.
"""

import hashlib
import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PyTree

from personae.bits import pack_bits_in_jax
from personae.types import PRNGKey

Net = TypeVar("Net", bound=eqx.Module)
KeyPath: TypeAlias = tuple[Hashable, ...]
"""The path of a leaf in a tree, as JAX gives it."""
HEADS = ("actor", "critic")
"""Attributes of a network that hold its last layers."""


def _attribute(key: Hashable) -> str | None:
    """Return the name in one entry of a path, if that is an attribute."""
    return getattr(key, "name", None)


def _is_bias(path: KeyPath) -> bool:
    return _attribute(path[-1]) == "bias"


def _is_weight(path: KeyPath, leaf: PyTree) -> bool:
    return eqx.is_inexact_array(leaf) and leaf.ndim >= 2 and not _is_bias(path)


def split_weights(network: Net) -> tuple[PyTree[Array], PyTree]:
    """Split a network into its weights and the rest; `eqx.combine` joins them again."""
    is_weight = jax.tree_util.tree_map_with_path(_is_weight, network)
    return eqx.partition(network, is_weight)


def weight_name(path: KeyPath) -> str:
    """Name a weight by its path in the network, for example `trunk.0`."""
    name = jax.tree_util.keystr(path, simple=True, separator=".")
    return name.removesuffix(".weight")


def named_weights(weights: PyTree[Array]) -> dict[str, Array]:
    """Return the weights, or a tree of the same structure, by name."""
    leaves = jax.tree_util.tree_leaves_with_path(weights)
    return {weight_name(path): leaf for path, leaf in leaves}


def named_arrays(tree: PyTree[ArrayLike]) -> dict[str, Any]:
    """Return all arrays of a tree by path, for example `trunk.0.bias`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in leaves
    }


def fan_in(weight: Array) -> int:
    """Count the inputs of one output unit of a linear or convolutional weight."""
    return math.prod(weight.shape[1:])


def signed_constant(network: Net, key: PRNGKey) -> Net:
    """Return the network with signed Kaiming constant weights and zero biases.

    Each weight is `+-sqrt(2 / fan_in)` with a fair sign: the standard deviation of the
    Kaiming normal initialisation with ReLU's gain (paper, appendix on initialisation).

    Note: the published code uses ReLU's gain for every layer, the heads and the tanh
    network of Continual World included, and so do we.
    """

    def draw(key: PRNGKey, path: KeyPath, weight: Array) -> Array:
        # The published code takes the signs of uniform weights, which are as fair.
        signs = jax.random.rademacher(key, weight.shape, weight.dtype)
        return signs * math.sqrt(2 / fan_in(weight))

    return _redraw(network, key, draw)


def orthogonal(network: Net, key: PRNGKey, head_scale: float = 1e-3) -> Net:
    """Return the network with orthogonal weights, small heads and zero biases.

    The published baselines start like this: their first policy is nearly uniform and
    their first values are nearly zero.
    """

    def draw(key: PRNGKey, path: KeyPath, weight: Array) -> Array:
        scale = head_scale if _attribute(path[0]) in HEADS else 1.0
        # Outputs are the first axis of a weight; JAX's initialisers expect them last.
        initialise = jax.nn.initializers.orthogonal(scale, column_axis=0)
        return initialise(key, weight.shape, weight.dtype)

    return _redraw(network, key, draw)


def _redraw(
    network: Net, key: PRNGKey, draw: Callable[[PRNGKey, KeyPath, Array], Array]
) -> Net:
    """Replace every weight by a random one and every bias by zero."""
    weights, rest = split_weights(network)
    leaves, structure = jax.tree_util.tree_flatten_with_path(weights)
    # In the order of the leaves, which thus decides what a seed draws.
    keys = jax.random.split(key, len(leaves))
    new_weights = [draw(k, *leaf) for k, leaf in zip(keys, leaves, strict=True)]
    without_bias = jax.tree_util.tree_map_with_path(_zero_bias, rest)
    return eqx.combine(jax.tree.unflatten(structure, new_weights), without_bias)


def _zero_bias(path: KeyPath, leaf: PyTree) -> PyTree:
    return jnp.zeros_like(leaf) if _is_bias(path) else leaf


def describe_backbone(network: eqx.Module) -> dict[str, Array]:
    """Return a signed-constant backbone as one bit per weight and one number per layer.

    Arrays that are not weights are given in full. A mask depends on all of them.

    Returns:
        `signs/LAYER` (packed bits), `constants/LAYER` (a scalar) and `rest/ARRAY`.
    """
    weights, rest = split_weights(network)
    # Signs are stored instead of the seed: random streams change between JAX versions.
    described = {}
    for name, weight in named_weights(weights).items():
        described[f"signs/{name}"] = pack_bits_in_jax(weight > 0)
        described[f"constants/{name}"] = jnp.max(jnp.abs(weight))
    for name, array in named_weights(eqx.filter(rest, eqx.is_array)).items():
        described[f"rest/{name}"] = array
    return described


def fingerprint(description: Mapping[str, ArrayLike]) -> str:
    """Return a digest of a described backbone; masks name their backbone by it."""
    digest = hashlib.sha256()
    # Sorted: the order in which arrays are described must not count.
    for name in sorted(description):
        array = np.asarray(description[name])
        # Equal bytes of another type or shape must not give the same digest.
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
