"""Convolutional actor-critic networks for images."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Literal, TypeAlias

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.backbones.conv import Convolution
from personae.backbones.heads import Head, make_head
from personae.backbones.mlp import linear_layers
from personae.errors import require
from personae.types import Distribution, PRNGKey, Scalar

Kind: TypeAlias = Literal["nature", "residual"]
Layers: TypeAlias = Sequence[Callable[[Array], Array]]
NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel and stride of each layer (Mnih et al., 2015; the paper's table for
ProcGen)."""
RESIDUAL = (16, 32, 32)
"""Channels of each stage (Espeholt et al., 2018)."""
LAYERS_OF_A_STAGE = 5
"""One that is pooled, and two blocks of two."""
SMALLEST: Mapping[Kind, int] = {"nature": 36, "residual": 1}
"""Pixels that each side of an image must have."""


class ConvNet(eqx.Module):
    """Convolutions and hidden layers with ReLU, an actor and a critic head.

    What is seen beside the image, such as a label, joins after the hidden layers.
    """

    convolutions: tuple[Convolution, ...]
    trunk: tuple[eqx.nn.Linear, ...]
    actor: Head
    critic: eqx.nn.Linear
    image: tuple[int, ...] = eqx.field(static=True)
    """The image's shape, as it is laid out in observations."""
    kind: Kind = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        image: tuple[int, ...],
        hidden: Sequence[int],
        action_space: gym.Space[Any],
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
        self.convolutions = _make(kind, channels, use_bias, conv_key)
        shown = jax.ShapeDtypeStruct((*sides, channels), jnp.float32)
        looked = jax.eval_shape(partial(LOOK[kind], self.convolutions), shown)
        seen = math.prod(looked.shape)
        self.trunk = linear_layers(seen, hidden, use_bias, keys)
        beside = inputs - math.prod(image)
        features = [seen, *hidden][-1] + beside
        self.actor = make_head(features, action_space, use_bias, actor_key)
        self.critic = eqx.nn.Linear(features, 1, use_bias, key=critic_key)

    @property
    def _channels_last(self) -> bool:
        return self.image[-1] <= self.image[0]

    def __call__(
        self, observation: Float[Array, " inputs"]
    ) -> tuple[Distribution, Scalar]:
        """Return the policy and the value of one observation, the image in front."""
        size = math.prod(self.image)
        image = observation[:size].reshape(self.image)
        if not self._channels_last:
            image = jnp.moveaxis(image, 0, -1)
        looked = LOOK[self.kind](self.convolutions, image)
        # Flattened as PyTorch does, so that weights can be carried over.
        features = jnp.ravel(jnp.moveaxis(looked, -1, 0))
        for linear in self.trunk:
            features = jax.nn.relu(linear(features))
        features = jnp.concatenate([features, observation[size:]])
        return self.actor(features), jnp.squeeze(self.critic(features), -1)


def in_a_row(layers: Layers, image: Array) -> Array:
    """Let an image through one layer after another."""
    for layer in layers:
        image = jax.nn.relu(layer(image))
    return image


def in_stages(layers: Layers, image: Array) -> Array:
    """Let an image through stages: a layer, pooling, two blocks that add what they see.

    Each block is two layers, and adds what comes out of them to what went in.
    """
    for start in range(0, len(layers), LAYERS_OF_A_STAGE):
        first, *blocks = layers[start : start + LAYERS_OF_A_STAGE]
        image = pooled(first(image))
        for one, other in zip(blocks[::2], blocks[1::2], strict=True):
            image = image + other(jax.nn.relu(one(jax.nn.relu(image))))
    return jax.nn.relu(image)


LOOK: Mapping[Kind, Callable[[Layers, Array], Array]] = {
    "nature": in_a_row,
    "residual": in_stages,
}


def pooled(image: Float[Array, "height width channels"]) -> Array:
    """Return the largest of each 3 x 3 pixels, at every other place.

    Rows and columns one after the other: windows reduced by XLA have slow gradients.
    """
    for axis in range(2):
        along = jnp.moveaxis(image, axis, 0)
        places = (len(along) + 1) // 2
        rim = jnp.full_like(along[:1], -jnp.inf)
        wide = jnp.concatenate([rim, along, rim])
        shifted = (wide[i : i + 2 * places - 1 : 2] for i in range(3))
        image = jnp.moveaxis(reduce(jnp.maximum, shifted), 0, axis)
    return image


def _make(
    kind: Kind, channels: int, use_bias: bool, key: PRNGKey
) -> tuple[Convolution, ...]:
    if kind == "nature":
        plans = [(*plan, 0) for plan in NATURE]
    else:
        plans = [(each, 3, 1, 1) for each in RESIDUAL for _ in range(LAYERS_OF_A_STAGE)]
    layers = []
    for outputs, kernel, stride, padding in plans:
        key, layer_key = jax.random.split(key)
        layers.append(
            Convolution(channels, outputs, kernel, stride, use_bias, layer_key, padding)
        )
        channels = outputs
    return tuple(layers)
