"""From a network in JAX to one in NumPy."""

from typing import Any

import equinox as eqx
import numpy as np

from personae.backbones.heads import (
    LOG_STD_BOUNDS,
    CategoricalHead,
    GaussianHead,
    Head,
    MultiCategoricalHead,
)
from personae.backbones.mlp import SeparateMLP, SharedMLP
from personae.errors import PersonaeError
from personae.policy.runtime import Activation, Choices, Gaussian, Layer


def body_of(network: Any, label: np.ndarray) -> tuple[tuple[Layer, ...], Activation]:
    """Return the layers that lead to a network's policy, and what is between them.

    The label, the same in every input of a task, becomes part of the first bias.
    """
    activation: Activation
    match network:
        case SharedMLP():
            linears, activation = network.trunk, "relu"
        case SeparateMLP():
            linears, activation = network.actor_body, "tanh"
        case _:
            raise PersonaeError(f"NumPy cannot act for a {type(network).__name__}")
    if not linears:
        raise PersonaeError("NumPy cannot act for a network without hidden layers")
    first, *rest = map(_layer, linears)
    inputs = first.weight.shape[1] - label.size
    bias = first.weight[:, inputs:] @ label
    bias = bias if first.bias is None else bias + first.bias
    return (Layer(first.weight[:, :inputs].copy(), bias), *rest), activation


def head_of(head: Head, num_actions: int) -> Choices | Gaussian:
    """Return the policy of a head, for a task that has so many of its actions."""
    match head:
        case CategoricalHead():
            return Choices(_layer(head.logits), (num_actions,), single=True)
        case MultiCategoricalHead():
            return Choices(_layer(head.logits), head.sizes, single=False)
        case GaussianHead():
            return Gaussian(_layer(head.mean), _layer(head.log_std), LOG_STD_BOUNDS)


def _layer(linear: eqx.nn.Linear) -> Layer:
    bias = None if linear.bias is None else np.asarray(linear.bias)
    return Layer(np.asarray(linear.weight), bias)
