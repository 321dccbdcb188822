"""A convolutional actor-critic network for images (the paper's table for ProcGen)."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.backbones.heads import Head, make_head
from personae.backbones.mlp import linear_layers
from personae.errors import require
from personae.types import Distribution, PRNGKey, Scalar

NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel and stride of each layer (Mnih et al., 2015)."""


class Convolution(eqx.Module):
    """Weights of a square kernel, applied without padding."""

    weight: Float[Array, "outputs inputs kernel kernel"]
    bias: Float[Array, " outputs"] | None
    stride: int = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        use_bias: bool,
        key: PRNGKey,
    ):
        bound = 1 / math.sqrt(inputs * kernel**2)
        shape = (outputs, inputs, kernel, kernel)
        weight_key, bias_key = jax.random.split(key)
        self.weight = jax.random.uniform(weight_key, shape, minval=-bound, maxval=bound)
        drawn = jax.random.uniform(bias_key, (outputs,), minval=-bound, maxval=bound)
        self.bias = drawn if use_bias else None
        self.stride = stride

    def __call__(
        self, image: Float[Array, "height width inputs"]
    ) -> Float[Array, "new_height new_width outputs"]:
        """Convolve one image, whose channels are last."""
        result = _product(image, self.weight, self.stride)
        return result if self.bias is None else result + self.bias


def _product(image: Array, weight: Array, stride: int) -> Array:
    """Multiply all patches of an image with all kernels at once.

    The image is cut into blocks as large as the stride; a patch is then a few whole
    blocks, which are copied in long rows. XLA's own convolutions take three times as
    long on a CPU, and a little longer on a GPU (docs/impala.md).
    """
    outputs, inputs, kernel, _ = weight.shape
    blocks = kernel // stride
    height, width = (_size_after(size, kernel, stride) for size in image.shape[:2])
    rows, columns = height + blocks - 1, width + blocks - 1
    whole = image[: rows * stride, : columns * stride]
    cut = whole.reshape(rows, stride, columns, stride, inputs).swapaxes(1, 2)
    grid = cut.reshape(rows, columns, -1)
    corners = itertools.product(range(blocks), repeat=2)
    shifted = [grid[i : i + height, j : j + width] for i, j in corners]
    patches = jnp.concatenate(shifted, -1).reshape(height * width, -1)
    parts = weight.reshape(outputs, inputs, blocks, stride, blocks, stride)
    kernels = jnp.transpose(parts, (2, 4, 3, 5, 1, 0)).reshape(-1, outputs)
    return (patches @ kernels).reshape(height, width, outputs)


def _size_after(size: int, kernel: int, stride: int) -> int:
    return (size - kernel) // stride + 1


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

    def __init__(
        self,
        inputs: int,
        image: tuple[int, ...],
        hidden: Sequence[int],
        action_space: gym.Space[Any],
        use_bias: bool,
        key: PRNGKey,
    ):
        require(
            len(image) == 3,
            f"convolutions need images, whose shape is like (64, 64, 3), not {image}",
        )
        self.image = image
        conv_key, actor_key, critic_key, *keys = jax.random.split(key, 3 + len(hidden))
        *sides, channels = image if self._channels_last else (*image[1:], image[0])
        layers = []
        for outputs, kernel, stride in NATURE:
            conv_key, layer_key = jax.random.split(conv_key)
            layers.append(
                Convolution(channels, outputs, kernel, stride, use_bias, layer_key)
            )
            sides = [_size_after(side, kernel, stride) for side in sides]
            require(
                min(sides) >= 1,
                f"images of shape {image} are too small for three convolutions; they "
                "need 36 x 36 pixels",
            )
            channels = outputs
        self.convolutions = tuple(layers)
        self.trunk = linear_layers(math.prod(sides) * channels, hidden, use_bias, keys)
        beside = inputs - math.prod(image)
        features = [math.prod(sides) * channels, *hidden][-1] + beside
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
        for layer in self.convolutions:
            image = jax.nn.relu(layer(image))
        # Flattened as PyTorch does, so that weights can be carried over.
        features = jnp.ravel(jnp.moveaxis(image, -1, 0))
        for linear in self.trunk:
            features = jax.nn.relu(linear(features))
        features = jnp.concatenate([features, observation[size:]])
        return self.actor(features), jnp.squeeze(self.critic(features), -1)
