"""Masks as pytree transforms, from a backbone and scores to a callable network."""

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

from personae.backbones.weights import fan_in, split_weights, weight_name
from personae.masks.generate import Rule
from personae.types import PRNGKey

Net = TypeVar("Net", bound=eqx.Module)
Choice = TypeVar("Choice")
RuleOf = Callable[[str], Rule]


def choose_by_layer(
    default: Choice, overrides: Mapping[str, Choice] | None = None
) -> Callable[[str], Choice]:
    """Return a choice per layer: the override that its name starts with, if any.

    For rules, `{"actor": continuous()}` gives the paper's "binary body, continuous
    head".
    """
    overrides = overrides or {}

    def choose(name: str) -> Choice:
        matches = [p for p in overrides if name == p or name.startswith(f"{p}.")]
        # The longest prefix says most about the layer.
        return overrides[max(matches, key=len)] if matches else default

    return choose


def init_scores(backbone: eqx.Module, key: PRNGKey) -> PyTree[Array]:
    """Draw fresh scores for every weight: uniform in +-1/sqrt(fan_in)."""
    weights, _ = split_weights(backbone)
    leaves, structure = jax.tree.flatten(weights)
    # PyTorch's range for the weights of linear layers, as in the published runs.
    keys = jax.random.split(key, len(leaves))
    scores = [
        jax.random.uniform(k, w.shape, w.dtype, -bound, bound)
        for k, w in zip(keys, leaves, strict=True)
        for bound in [1 / math.sqrt(fan_in(w))]
    ]
    return jax.tree.unflatten(structure, scores)


def generate_masks(
    scores: PyTree[Array], rule_of: RuleOf, key: PRNGKey | None = None
) -> PyTree[Array]:
    """Apply each layer's rule to its scores.

    Args:
        scores: One array of scores per layer.
        rule_of: The rule of a layer by the layer's name.
        key: The source of random masks; None gives the most likely ones.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(scores)
    # A key for every layer, random or not: keys then do not depend on the rules.
    keys = [None] * len(leaves) if key is None else jax.random.split(key, len(leaves))
    masks = [
        rule_of(weight_name(path))(layer, layer_key)
        for (path, layer), layer_key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, masks)


def modulate(
    backbone: Net, scores: PyTree[Array], rule_of: RuleOf, key: PRNGKey | None = None
) -> Net:
    """Return the network with weights W * g(S).

    Args:
        backbone: Any Equinox network; its weights are those of `split_weights`.
        scores: A tree like the backbone's weights.
        rule_of: The rule g of a layer by the layer's name.
        key: The source of random masks; None gives the most likely ones.

    Returns:
        A network of the backbone's type; arrays that are no weights are the same.
    """
    weights, rest = split_weights(backbone)
    masks = generate_masks(scores, rule_of, key)
    return eqx.combine(jax.tree.map(lambda w, m: w * m, weights, masks), rest)
