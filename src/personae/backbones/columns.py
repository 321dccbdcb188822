"""Two networks side by side, one of which uses the other's features.

These are the columns of progressive networks (Rusu et al., 2016). Any Equinox network
will do whose layers are linear or convolutions, each called once.
"""

from collections.abc import Callable
from typing import TypeAlias, TypeGuard

import equinox as eqx
import jax
from jaxtyping import Array

from personae.backbones.conv import Convolution
from personae.types import Distribution, Network, Observation, PRNGKey, Scalar

Layer: TypeAlias = eqx.nn.Linear | Convolution
LayerCall: TypeAlias = Callable[[Array], Array]


class Adaptor(eqx.Module):
    """A small network from a base layer's input to an addition to an active layer."""

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
            # 1 x 1, as the view has given the image its size: only channels are mixed.
            self.mix = Convolution(outputs, outputs, 1, 1, bias, mix_key)
        else:
            outputs, inputs = layer.weight.shape
            self.view = eqx.nn.Linear(inputs, outputs, bias, key=view_key)
            self.mix = eqx.nn.Linear(outputs, outputs, bias, key=mix_key)

    def __call__(self, base_input: Array) -> Array:
        """Return the addition to the output of the active layer."""
        return self.mix(jax.nn.relu(self.view(base_input)))


class Columns(eqx.Module):
    """An active network whose layers, but the first, also use the base's features."""

    active: eqx.Module
    adaptors: tuple[Adaptor, ...]
    base: eqx.Module
    """The network that lends its features; it uses its own only."""

    def __call__(self, observation: Observation) -> tuple[Distribution, Scalar]:
        """Return the active network's policy and value of one observation."""
        # Filled as a side effect, which is safe: both columns are traced in one call.
        base_inputs: dict[int, Array] = {}

        def recording(index: int, layer: Layer) -> LayerCall:
            def call(layer_input: Array) -> Array:
                base_inputs[index] = layer_input
                return layer(layer_input)

            return call

        def adapted(index: int, layer: Layer) -> LayerCall:
            def call(layer_input: Array) -> Array:
                # Before the activation, as in CORA: networks apply it afterwards.
                return layer(layer_input) + self.adaptors[index - 1](base_inputs[index])

            # The first layers of both have the same input: there is nothing to add.
            return call if index > 0 else layer

        # The base runs first, since its layers leave their inputs for the adaptors.
        _replace_layers(self.base, recording)(observation)
        return _replace_layers(self.active, adapted)(observation)


def make_adaptors(network: eqx.Module, key: PRNGKey) -> tuple[Adaptor, ...]:
    """Draw the adaptors between two networks of the same form as this one."""
    layers = layers_of(network)[1:]
    keys = jax.random.split(key, len(layers))
    return tuple(map(Adaptor, layers, keys))


def layers_of(network: eqx.Module) -> list[Layer]:
    """Return all linear layers and convolutions of a network, in order."""
    leaves = jax.tree.leaves(network, is_leaf=_is_layer)
    return [leaf for leaf in leaves if _is_layer(leaf)]


def _is_layer(node: object) -> TypeGuard[Layer]:
    return isinstance(node, eqx.nn.Linear | Convolution)


def _replace_layers(
    network: eqx.Module, replacement: Callable[[int, Layer], LayerCall]
) -> Network:
    """Return the network with another function in the place of each layer."""
    calls = [replacement(*indexed) for indexed in enumerate(layers_of(network))]
    return eqx.tree_at(layers_of, network, calls)
