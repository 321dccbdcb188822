"""Convolutional actor-critic networks for images."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.backbones.conv import Convolution
from personae.backbones.heads import Head, make_heads
from personae.backbones.mlp import linear_layers
from personae.errors import require
from personae.types import Distribution, PRNGKey, Scalar, Space

Kind: TypeAlias = Literal["nature", "residual"]
Layers: TypeAlias = Sequence[Callable[[Array], Array]]
NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel and stride of each layer (Mnih et al., 2015; the paper's table for
ProcGen)."""
RESIDUAL = (16, 32, 32)
"""Channels of each stage (Espeholt et al., 2018)."""
LAYERS_PER_STAGE = 5
"""One layer before the pooling, and two blocks of two layers."""
# The layers of nature turn 36 pixels into 8, 3 and then 1.
SMALLEST: Mapping[Kind, int] = {"nature": 36, "residual": 1}
"""Smallest side of an image, in pixels, that the convolutions can take."""


class ConvNet(eqx.Module):
    """Convolutions and hidden layers with ReLU, an actor and a critic head.

    Inputs beside the image, such as a label, join after the hidden layers.
    """

    convolutions: tuple[Convolution, ...]
    trunk: tuple[eqx.nn.Linear, ...]
    actor: Head
    critic: eqx.nn.Linear
    image: tuple[int, ...] = eqx.field(static=True)
    """The image's shape in observations, channels first or last."""
    kind: Kind = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        image: tuple[int, ...],
        hidden: Sequence[int],
        action_space: Space,
        use_bias: bool,
        key: PRNGKey,
        kind: Kind = "nature",
    ):
        require(
            len(image) == 3,
            f"convolutions need images, whose shape is like (64, 64, 3), not {image}",
        )
        self.image, self.kind = image, kind
        conv_key, actor_key, critic_key, *keys = jax.random.split(key, 3 + len(hidden))
        *sides, channels = image if self._channels_last else (*image[1:], image[0])
        least = SMALLEST[kind]
        require(
            min(sides) >= least,
            f"images of shape {image} are too small for these convolutions ({kind}); "
            f"they need {least} x {least} pixels",
        )
        self.convolutions = _make_convolutions(kind, channels, use_bias, conv_key)
        # Traced, not computed: no formula has to keep up with the layers.
        pixels = jax.ShapeDtypeStruct((*sides, channels), jnp.float32)
        feature_map = jax.eval_shape(partial(APPLY[kind], self.convolutions), pixels)
        flat_size = math.prod(feature_map.shape)
        self.trunk = linear_layers(flat_size, hidden, use_bias, keys)
        extra_size = inputs - math.prod(image)
        features = [flat_size, *hidden][-1] + extra_size
        self.actor, self.critic = make_heads(
            features, action_space, use_bias, actor_key, critic_key
        )

    @property
    def _channels_last(self) -> bool:
        # Spaces do not say which axis has the channels; it is the short one.
        return self.image[-1] <= self.image[0]

    def __call__(
        self, observation: Float[Array, " inputs"]
    ) -> tuple[Distribution, Scalar]:
        """Return the policy and the value of one observation, the image in front."""
        size = math.prod(self.image)
        image = observation[:size].reshape(self.image)
        if not self._channels_last:
            image = jnp.moveaxis(image, 0, -1)
        feature_map = APPLY[self.kind](self.convolutions, image)
        # Flattened as PyTorch does, so that weights can be carried over.
        features = jnp.ravel(jnp.moveaxis(feature_map, -1, 0))
        for linear in self.trunk:
            features = jax.nn.relu(linear(features))
        features = jnp.concatenate([features, observation[size:]])
        return self.actor(features), jnp.squeeze(self.critic(features), -1)


def apply_in_sequence(layers: Layers, image: Array) -> Array:
    """Apply one layer after another, each followed by ReLU."""
    for layer in layers:
        image = jax.nn.relu(layer(image))
    return image


def apply_in_stages(layers: Layers, image: Array) -> Array:
    """Apply residual stages: a layer, pooling, and two blocks with a skip connection.

    Each block is two layers, whose output is added to the block's input.
    """
    for start in range(0, len(layers), LAYERS_PER_STAGE):
        first, *blocks = layers[start : start + LAYERS_PER_STAGE]
        image = max_pool(first(image))
        for one, other in zip(blocks[::2], blocks[1::2], strict=True):
            image = image + other(jax.nn.relu(one(jax.nn.relu(image))))
    return jax.nn.relu(image)


APPLY: Mapping[Kind, Callable[[Layers, Array], Array]] = {
    "nature": apply_in_sequence,
    "residual": apply_in_stages,
}


def max_pool(image: Float[Array, "height width channels"]) -> Array:
    """Return the largest value of each 3 x 3 pixels, with stride 2."""
    # Rows and columns one after the other: windows reduced by XLA have slow gradients.
    for axis in range(2):
        lines = jnp.moveaxis(image, axis, 0)
        size = (len(lines) + 1) // 2
        # -inf never wins, since every window has a pixel of the image.
        border = jnp.full_like(lines[:1], -jnp.inf)
        padded = jnp.concatenate([border, lines, border])
        shifted = (padded[i : i + 2 * size - 1 : 2] for i in range(3))
        image = jnp.moveaxis(reduce(jnp.maximum, shifted), 0, axis)
    return image


def _make_convolutions(
    kind: Kind, channels: int, use_bias: bool, key: PRNGKey
) -> tuple[Convolution, ...]:
    if kind == "nature":
        forms = [(*form, 0) for form in NATURE]
    else:
        forms = [(size, 3, 1, 1) for size in RESIDUAL for _ in range(LAYERS_PER_STAGE)]
    layers = []
    for outputs, kernel, stride, padding in forms:
        # One split per layer, not one of all: it decides the weights of saved runs.
        key, layer_key = jax.random.split(key)
        layers.append(
            Convolution(channels, outputs, kernel, stride, use_bias, layer_key, padding)
        )
        channels = outputs
    return tuple(layers)
