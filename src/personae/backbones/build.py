"""The network that a curriculum asks for."""

import math
from dataclasses import dataclass
from typing import Literal

from personae.backbones.convnet import ConvNet
from personae.backbones.mlp import SeparateMLP, SharedMLP
from personae.errors import require
from personae.types import PRNGKey, Space


@dataclass(frozen=True)
class NetworkOptions:
    """The form of the network that is masked or trained."""

    hidden: tuple[int, ...] = (200, 200, 200)
    """Units of each hidden layer."""
    bodies: Literal["separate"] | None = None
    """separate gives actor and critic hidden layers of their own, with tanh; by default
    they share them, with ReLU."""
    convolutions: Literal["nature", "residual"] | None = None
    """For images: nature has three convolutions (Mnih et al., 2015) before the hidden
    layers, residual fifteen in three stages (Espeholt et al., 2018), which learn more
    and take a GPU. By default the pixels go to the hidden layers directly."""

    def __post_init__(self) -> None:
        sizes = list(self.hidden)
        require(all(n >= 1 for n in sizes), f"hidden sizes must be positive: {sizes}")
        require(
            self.bodies is None or self.convolutions is None,
            "convolutions are shared by actor and critic: leave out network.bodies",
        )


def build_network(
    options: NetworkOptions,
    shape: tuple[int, ...],
    extra_size: int,
    action_space: Space,
    use_bias: bool,
    key: PRNGKey,
) -> ConvNet | SeparateMLP | SharedMLP:
    """Build a network with weights drawn from a key.

    Args:
        options: The form of the network.
        shape: The shape of one observation of the environment.
        extra_size: Numbers that the encoder appends to the flattened observation, such
            as the task's label.
        action_space: The action space, which decides the form of the policy.
        use_bias: Whether layers have biases; masked networks have none.
        key: The source of the weights.

    Returns:
        A network that takes `prod(shape) + extra_size` numbers.
    """
    inputs, hidden = math.prod(shape) + extra_size, options.hidden
    if options.convolutions is not None:
        kind = options.convolutions
        return ConvNet(inputs, shape, hidden, action_space, use_bias, key, kind)
    network = SeparateMLP if options.bodies == "separate" else SharedMLP
    return network(inputs, hidden, action_space, use_bias, key)
