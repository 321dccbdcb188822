"""Which network a curriculum asks for."""

import math
from typing import Any

import gymnasium as gym

from personae.backbones import ConvNet, SeparateMLP, SharedMLP
from personae.curricula.curriculum import NetworkOptions
from personae.types import PRNGKey


def build_network(
    options: NetworkOptions,
    shape: tuple[int, ...],
    beside: int,
    action_space: gym.Space[Any],
    use_bias: bool,
    key: PRNGKey,
) -> ConvNet | SeparateMLP | SharedMLP:
    """Build it for observations of a shape, with so many numbers beside them."""
    inputs, hidden = math.prod(shape) + beside, options.hidden
    if options.convolutions is not None:
        eyes = options.convolutions
        return ConvNet(inputs, shape, hidden, action_space, use_bias, key, eyes)
    kind = SeparateMLP if options.bodies == "separate" else SharedMLP
    return kind(inputs, hidden, action_space, use_bias, key)
