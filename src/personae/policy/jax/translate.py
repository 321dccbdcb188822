"""Translation of a network in JAX to its architecture and its arrays in NumPy."""

from collections.abc import Sequence
from typing import Literal, TypedDict

import equinox as eqx
import jax
import numpy as np

from personae.backbones.convnet import ConvNet
from personae.backbones.heads import (
    LOG_STD_BOUNDS,
    CategoricalHead,
    GaussianHead,
    MultiCategoricalHead,
)
from personae.backbones.mlp import SeparateMLP, SharedMLP
from personae.backbones.weights import named_arrays
from personae.errors import PersonaeError
from personae.policy.architecture import Architecture


class _Head(TypedDict, total=False):
    """The fields of an architecture that describe its head."""

    head: Literal["categorical", "gaussian"]
    action_sizes: tuple[int, ...]
    scalar_action: bool
    log_std_bounds: tuple[float, float]


def architecture_of(network: object) -> Architecture:
    """Return the layers that lead to a network's policy.

    Critics are left out: nothing that acts needs them.
    """
    match network:
        case ConvNet():
            layers = network.convolutions
            # The trunk may be empty: convolutions are hidden layers too.
            return Architecture(
                _layer_names("trunk", network.trunk),
                "relu",
                **_describe_head(network.actor),
                convolutions=_layer_names("convolutions", layers),
                strides=tuple(layer.stride for layer in layers),
                image_shape=tuple(network.image),
                residual=network.kind == "residual",
            )
        case SharedMLP():
            body = _layer_names("trunk", network.trunk)
            return Architecture(body, "relu", **_describe_head(network.actor))
        case SeparateMLP():
            body = _layer_names("actor_body", network.actor_body)
            return Architecture(body, "tanh", **_describe_head(network.actor))
    raise PersonaeError(f"NumPy cannot act for a {type(network).__name__}")


def _layer_names(name: str, layers: Sequence[eqx.Module]) -> tuple[str, ...]:
    return tuple(f"{name}.{index}" for index in range(len(layers)))


def _describe_head(head: object) -> _Head:
    match head:
        case CategoricalHead():
            # Counted from the end: the arrays of many agents have an axis before.
            sizes = (int(head.logits.weight.shape[-2]),)
            return {"head": "categorical", "action_sizes": sizes, "scalar_action": True}
        case MultiCategoricalHead():
            return {"head": "categorical", "action_sizes": tuple(head.sizes)}
        case GaussianHead():
            return {"head": "gaussian", "log_std_bounds": LOG_STD_BOUNDS}
    raise PersonaeError(f"NumPy cannot act with a {type(head).__name__}")


def arrays_of(network: object) -> dict[str, np.ndarray]:
    """Return a network's arrays by name, for example `trunk.0.weight`."""
    return {k: np.asarray(v) for k, v in named_arrays(jax.device_get(network)).items()}
