"""The form of a network, as plain data, and what acts with its arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from personae.errors import require
from personae.policy.runtime import (
    LAYERS_OF_A_STAGE,
    Activation,
    Choices,
    Convolution,
    ConvolutionStack,
    Gaussian,
    Layer,
    TaskPolicy,
)
from personae.serialise import LEFT_OUT

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Architecture:
    """Which layers lead from what is seen to what is done."""

    body: tuple[str, ...]
    """Names of the layers before the head."""
    activation: Activation
    head: Literal["choices", "gaussian"]
    sizes: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    """How many actions each choice is among."""
    single: bool = field(default=False, metadata=LEFT_OUT)
    """Whether an action is one number instead of a list."""
    bounds: tuple[float, float] = field(default=(0.0, 0.0), metadata=LEFT_OUT)
    """Of the log standard deviation, where actions are drawn around a mean."""
    convolutions: tuple[str, ...] = field(default=(), metadata=LEFT_OUT)
    strides: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    image: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    """The shape of an image, if there are convolutions."""
    residual: bool = field(default=False, metadata=LEFT_OUT)
    """Whether convolutions come in stages of five, as IMPALA's authors had them."""

    def __post_init__(self) -> None:
        for name in ("sizes", "strides", "image"):
            numbers = getattr(self, name)
            fits = all(number >= 1 for number in numbers)
            require(fits, f"{name} must be positive, not {list(numbers)}")
        require(
            len(self.strides) == len(self.convolutions),
            f"{len(self.convolutions)} convolutions, {len(self.strides)} strides",
        )
        require(
            len(self.image) == (3 if self.convolutions else 0),
            f"an image has three dimensions, not {list(self.image)}",
        )
        require(bool(self.body or self.convolutions), "a network without hidden layers")
        require(
            not self.residual or len(self.convolutions) % LAYERS_OF_A_STAGE == 0,
            f"{len(self.convolutions)} convolutions, which are no stages of "
            f"{LAYERS_OF_A_STAGE}",
        )
        require(not self.single or len(self.sizes) == 1, "one number, several choices")

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the last layers."""
        choices = self.head == "choices"
        return ("actor.logits",) if choices else ("actor.mean", "actor.log_std")

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of all layers."""
        return (*self.convolutions, *self.body, *self.heads)

    @property
    def padding(self) -> int:
        """Pixels that convolutions add on each side."""
        return 1 if self.residual else 0

    @property
    def joined(self) -> tuple[str, ...]:
        """Names of the layers that also see what is beside an observation."""
        return self.heads if self.convolutions else self.body[:1]


@dataclass(frozen=True)
class InputSpec:
    """How one task's observations reach the network."""

    label: np.ndarray
    """The task's one-hot label, the same in every input."""
    scale: float
    num_actions: int
    """How many of the network's actions, or of their dimensions, the task has."""
    mean: np.ndarray | None = None
    deviation: np.ndarray | None = None


def assemble(form: Architecture, arrays: Arrays, sight: InputSpec) -> TaskPolicy:
    """Return what acts; labels become part of biases."""

    def layer(name: str) -> Layer:
        weight, bias = arrays[f"{name}.weight"], arrays.get(f"{name}.bias")
        if name not in form.joined or sight.label.size == 0:
            return Layer(weight, bias)
        seen = weight.shape[1] - sight.label.size
        always = weight[:, seen:] @ sight.label
        always = always if bias is None else always + bias
        return Layer(np.ascontiguousarray(weight[:, :seen]), always)

    eyes = None
    if form.convolutions:
        strides = zip(form.convolutions, form.strides, strict=True)
        layers = tuple(
            Convolution(
                arrays[f"{name}.weight"],
                arrays.get(f"{name}.bias"),
                stride,
                form.padding,
            )
            for name, stride in strides
        )
        eyes = ConvolutionStack(layers, form.image, form.residual)
    head: Choices | Gaussian
    if form.head == "choices":
        sizes = (sight.num_actions,) if form.single else form.sizes
        head = Choices(layer("actor.logits"), sizes, form.single)
    else:
        head = Gaussian(layer("actor.mean"), layer("actor.log_std"), form.bounds)
    body = tuple(map(layer, form.body))
    mean, deviation = sight.mean, sight.deviation
    return TaskPolicy(body, form.activation, head, mean, deviation, sight.scale, eyes)
