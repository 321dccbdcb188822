"""Two networks side by side, of which one listens to the other (progressive networks).

Any Equinox network will do whose layers are linear or convolutions, each called once.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
from jaxtyping import Array

from personae.backbones.conv import Convolution
from personae.types import Distribution, Observation, PRNGKey, Scalar

Layer: TypeAlias = eqx.nn.Linear | Convolution


class Adaptor(eqx.Module):
    """What a layer takes in of the same layer's input in another network."""

    view: Layer
    mix: Layer

    def __init__(self, layer: Layer, key: PRNGKey):
        view_key, mix_key = jax.random.split(key)
        bias = layer.bias is not None
        if isinstance(layer, Convolution):
            outputs, inputs, kernel, _ = layer.weight.shape
            self.view = Convolution(
                inputs, outputs, kernel, layer.stride, bias, view_key, layer.padding
            )
            self.mix = Convolution(outputs, outputs, 1, 1, bias, mix_key)
        else:
            outputs, inputs = layer.weight.shape
            self.view = eqx.nn.Linear(inputs, outputs, bias, key=view_key)
            self.mix = eqx.nn.Linear(outputs, outputs, bias, key=mix_key)

    def __call__(self, heard: Array) -> Array:
        """Return what joins the layer's own result."""
        return self.mix(jax.nn.relu(self.view(heard)))


class Columns(eqx.Module):
    """A network whose layers, but the first, also see what those of another see."""

    active: eqx.Module
    adaptors: tuple[Adaptor, ...]
    base: eqx.Module
    """The other one, which sees itself only."""

    def __call__(self, observation: Observation) -> tuple[Distribution, Scalar]:
        """Return the active network's policy and value of one observation."""
        heard: dict[int, Array] = {}

        def listening(index: int, layer: Layer) -> Callable[[Array], Array]:
            def call(seen: Array) -> Array:
                heard[index] = seen
                return layer(seen)

            return call

        def joined(index: int, layer: Layer) -> Callable[[Array], Array]:
            def call(seen: Array) -> Array:
                return layer(seen) + self.adaptors[index - 1](heard[index])

            return call if index > 0 else layer

        _with_layers(self.base, listening)(observation)
        answer: tuple[Distribution, Scalar] = _with_layers(self.active, joined)(
            observation
        )
        return answer


def make_adaptors(network: eqx.Module, key: PRNGKey) -> tuple[Adaptor, ...]:
    """Draw adaptors between two networks of one form."""
    layers = layers_of(network)[1:]
    keys = jax.random.split(key, len(layers))
    return tuple(map(Adaptor, layers, keys))


def layers_of(network: eqx.Module) -> list[Layer]:
    """Return all linear layers and convolutions."""
    leaves = jax.tree.leaves(network, is_leaf=_is_layer)
    return [leaf for leaf in leaves if _is_layer(leaf)]


def _is_layer(node: Any) -> bool:
    return isinstance(node, eqx.nn.Linear | Convolution)


def _with_layers(
    network: eqx.Module, change: Callable[[int, Layer], Callable[[Array], Array]]
) -> Any:
    """Return the network with something else in the place of each layer."""
    changed = [change(*each) for each in enumerate(layers_of(network))]
    return eqx.tree_at(layers_of, network, changed)
