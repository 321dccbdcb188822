"""The architecture of a network, as plain data, and its policy in NumPy."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from personae.errors import require
from personae.policy.runtime import (
    LAYERS_PER_STAGE,
    Activation,
    CategoricalHead,
    Convolution,
    ConvolutionStack,
    GaussianHead,
    Layer,
    TaskPolicy,
)
from personae.policy.tensors import Arrays
from personae.serialise import LEFT_OUT


@dataclass(frozen=True)
class Architecture:
    """The layers between an observation and an action."""

    body: tuple[str, ...]
    """Names of the layers before the head."""
    activation: Activation
    head: Literal["categorical", "gaussian"]
    action_sizes: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    """Number of actions of each choice of a categorical head."""
    scalar_action: bool = field(default=False, metadata=LEFT_OUT)
    """Whether an action is one number instead of a list."""
    log_std_bounds: tuple[float, float] = field(default=(0.0, 0.0), metadata=LEFT_OUT)
    """Bounds of the log standard deviation of a Gaussian head."""
    convolutions: tuple[str, ...] = field(default=(), metadata=LEFT_OUT)
    """Names of the layers before the body."""
    strides: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    """The stride of each convolution."""
    image_shape: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    """The shape of an image, if there are convolutions."""
    residual: bool = field(default=False, metadata=LEFT_OUT)
    """Whether convolutions come in stages of five (Espeholt et al., 2018)."""

    def __post_init__(self) -> None:
        for name in ("action_sizes", "strides", "image_shape"):
            numbers = getattr(self, name)
            positive = all(number >= 1 for number in numbers)
            require(positive, f"{name} must be positive, not {list(numbers)}")
        require(
            len(self.strides) == len(self.convolutions),
            f"{len(self.convolutions)} convolutions, {len(self.strides)} strides",
        )
        require(
            len(self.image_shape) == (3 if self.convolutions else 0),
            f"an image has three dimensions, not {list(self.image_shape)}",
        )
        require(bool(self.body or self.convolutions), "a network without hidden layers")
        require(
            not self.residual or len(self.convolutions) % LAYERS_PER_STAGE == 0,
            f"{len(self.convolutions)} convolutions do not make stages of "
            f"{LAYERS_PER_STAGE}",
        )
        require(
            not self.scalar_action or len(self.action_sizes) == 1,
            f"an action of one number makes one choice, not {len(self.action_sizes)}",
        )

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the last layers."""
        categorical = self.head == "categorical"
        return ("actor.logits",) if categorical else ("actor.mean", "actor.log_std")

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of all layers."""
        return (*self.convolutions, *self.body, *self.heads)

    @property
    def padding(self) -> int:
        """Pixels that convolutions add on each side."""
        # So that kernels of 3 x 3 keep the size of an image, and blocks can add to it.
        return 1 if self.residual else 0

    @property
    def layers_with_extra_inputs(self) -> tuple[str, ...]:
        """Names of the layers that also take the previous step and the task label."""
        # Convolutions take pixels only.
        return self.heads if self.convolutions else self.body[:1]


@dataclass(frozen=True)
class InputSpec:
    """Settings of one task that turn its observations into inputs of the network."""

    label: np.ndarray
    """The task's one-hot label, the same in every input."""
    scale: float
    num_actions: int
    """Number of the task's actions, or of their dimensions. The network may have more,
    for other tasks."""
    mean: np.ndarray | None = None
    deviation: np.ndarray | None = None


def assemble(
    architecture: Architecture, arrays: Arrays, inputs: InputSpec
) -> TaskPolicy:
    """Return the policy of a network on one task."""

    def layer(name: str) -> Layer:
        return _linear_layer(name, architecture, arrays, inputs)

    head: CategoricalHead | GaussianHead
    if architecture.head == "categorical":
        scalar = architecture.scalar_action
        sizes = (inputs.num_actions,) if scalar else architecture.action_sizes
        head = CategoricalHead(layer("actor.logits"), sizes, scalar)
    else:
        mean, log_std = layer("actor.mean"), layer("actor.log_std")
        head = GaussianHead(mean, log_std, architecture.log_std_bounds)
    return TaskPolicy(
        tuple(map(layer, architecture.body)),
        architecture.activation,
        head,
        inputs.mean,
        inputs.deviation,
        inputs.scale,
        _convolution_stack(architecture, arrays),
    )


def _linear_layer(
    name: str, architecture: Architecture, arrays: Arrays, inputs: InputSpec
) -> Layer:
    """Return a linear layer, with the task label's share in its bias."""
    weight, bias = arrays[f"{name}.weight"], arrays.get(f"{name}.bias")
    label = inputs.label
    if name not in architecture.layers_with_extra_inputs or label.size == 0:
        return Layer(weight, bias)
    # The label never changes on a task: its product is taken once, not at every step.
    width = weight.shape[1] - label.size
    constant = weight[:, width:] @ label
    constant = constant if bias is None else constant + bias
    return Layer(np.ascontiguousarray(weight[:, :width]), constant)


def _convolution_stack(
    architecture: Architecture, arrays: Arrays
) -> ConvolutionStack | None:
    if not architecture.convolutions:
        return None
    strides = zip(architecture.convolutions, architecture.strides, strict=True)
    layers = tuple(
        Convolution(
            arrays[f"{name}.weight"],
            arrays.get(f"{name}.bias"),
            stride,
            architecture.padding,
        )
        for name, stride in strides
    )
    return ConvolutionStack(layers, architecture.image_shape, architecture.residual)
