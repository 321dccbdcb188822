"""From a network in JAX to its form and its arrays in NumPy."""

from collections.abc import Sequence
from typing import Any

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


def architecture_of(network: Any) -> Architecture:
    """Return the layers that lead to a network's policy."""
    match network:
        case ConvNet():
            layers = network.convolutions
            return Architecture(
                _numbered("trunk", network.trunk),
                "relu",
                **_head(network.actor),
                convolutions=_numbered("convolutions", layers),
                strides=tuple(layer.stride for layer in layers),
                image=tuple(network.image),
                residual=network.kind == "residual",
            )
        case SharedMLP():
            return Architecture(
                _numbered("trunk", network.trunk), "relu", **_head(network.actor)
            )
        case SeparateMLP():
            body = _numbered("actor_body", network.actor_body)
            return Architecture(body, "tanh", **_head(network.actor))
    raise PersonaeError(f"NumPy cannot act for a {type(network).__name__}")


def _numbered(name: str, layers: Sequence[Any]) -> tuple[str, ...]:
    return tuple(f"{name}.{index}" for index in range(len(layers)))


def _head(head: Any) -> dict[str, Any]:
    match head:
        case CategoricalHead():
            sizes = (int(head.logits.weight.shape[-2]),)
            return {"head": "choices", "sizes": sizes, "single": True}
        case MultiCategoricalHead():
            return {"head": "choices", "sizes": tuple(head.sizes)}
        case GaussianHead():
            return {"head": "gaussian", "bounds": LOG_STD_BOUNDS}
    raise PersonaeError(f"NumPy cannot act with a {type(head).__name__}")


def arrays_of(network: Any) -> dict[str, np.ndarray]:
    """Return a network's arrays by place, for example `trunk.0.weight`."""
    return {k: np.asarray(v) for k, v in named_arrays(jax.device_get(network)).items()}
