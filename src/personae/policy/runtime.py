"""Acting with NumPy alone: one agent's network on one task."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

Generator = np.random.Generator
LAYERS_OF_A_STAGE = 5
"""Of residual networks: a convolution that is pooled, and two blocks of two."""
Activation: TypeAlias = Literal["relu", "tanh"]


class Layer(NamedTuple):
    """A linear map, `[out, in]`."""

    weight: np.ndarray
    bias: np.ndarray | None

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Map one input, or a batch of them."""
        outputs: np.ndarray = inputs @ self.weight.T
        if self.bias is not None:
            outputs += self.bias
        return outputs


class Convolution(NamedTuple):
    """Square kernels, `[out, in, row, column]`."""

    weight: np.ndarray
    bias: np.ndarray | None
    stride: int
    padding: int = 0
    """Pixels of 0 that are added on each side."""

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Convolve images, `[..., row, column, channel]`."""
        outputs, *_, kernel = self.weight.shape
        images = _with_rim(images, self.padding, 0.0)
        windows = np.lib.stride_tricks.sliding_window_view(
            images, (kernel, kernel), axis=(-3, -2)
        )[..., :: self.stride, :: self.stride, :, :, :]
        patches = windows.reshape(*windows.shape[:-3], -1)
        result: np.ndarray = patches @ self.weight.reshape(outputs, -1).T
        return result if self.bias is None else result + self.bias


def _with_rim(images: np.ndarray, width: int, value: float) -> np.ndarray:
    """Put pixels around images, `[..., row, column, channel]`."""
    if width == 0:
        return images
    around = [(0, 0)] * (images.ndim - 3) + [(width, width)] * 2 + [(0, 0)]
    return np.pad(images, around, constant_values=value)


def _pooled(images: np.ndarray) -> np.ndarray:
    """Return the largest of each 3 x 3 pixels, at every other place."""
    windows = np.lib.stride_tricks.sliding_window_view(
        _with_rim(images, 1, -np.inf), (3, 3), axis=(-3, -2)
    )
    largest: np.ndarray = windows[..., ::2, ::2, :, :, :].max((-2, -1))
    return largest


@dataclass(frozen=True)
class ConvolutionStack:
    """Convolutions with ReLU between them, in front of the body."""

    layers: tuple[Convolution, ...]
    image: tuple[int, ...]
    """The shape of an image, as it is laid out in observations."""
    residual: bool = False
    """Whether layers come in stages of five; else they come one after another."""

    def __call__(self, flat: np.ndarray) -> np.ndarray:
        """Return the features of flat images."""
        images = flat.reshape(*flat.shape[:-1], *self.image)
        if self.image[-1] > self.image[0]:  # channels come first
            images = np.moveaxis(images, -3, -1)
        apply_network = self._in_stages if self.residual else self._in_a_row
        # Flattened as PyTorch does, as in training.
        return np.moveaxis(apply_network(images), -1, -3).reshape(*flat.shape[:-1], -1)

    def _in_a_row(self, images: np.ndarray) -> np.ndarray:
        for layer in self.layers:
            images = np.maximum(layer(images), 0)
        return images

    def _in_stages(self, images: np.ndarray) -> np.ndarray:
        for start in range(0, len(self.layers), LAYERS_OF_A_STAGE):
            first, *blocks = self.layers[start : start + LAYERS_OF_A_STAGE]
            images = _pooled(first(images))
            for one, other in zip(blocks[::2], blocks[1::2], strict=True):
                between = np.maximum(one(np.maximum(images, 0)), 0)
                images = images + other(between)
        return np.maximum(images, 0)


@dataclass(frozen=True)
class Choices:
    """A choice among finitely many actions, or several choices at once."""

    logits: Layer
    sizes: tuple[int, ...]
    """How many actions each choice is among; the first of the logits are for them."""
    single: bool
    """Whether an action is one number instead of a list."""

    def act(self, features: np.ndarray, rng: Generator | None) -> np.ndarray:
        """Draw actions, or take the most likely ones."""
        logits, chosen, start = self.logits(features), [], 0
        for size in self.sizes:
            these = logits[..., start : start + size]
            if rng is not None:  # the largest after Gumbel's noise is a draw
                these = these + rng.gumbel(size=these.shape)
            chosen.append(np.asarray(np.argmax(these, -1), np.int32))
            start += size
        return chosen[0] if self.single else np.stack(chosen, -1)


@dataclass(frozen=True)
class Gaussian:
    """Real numbers around a mean; clipping them is the environment's business."""

    mean: Layer
    log_std: Layer
    bounds: tuple[float, float]
    """Of the log standard deviation."""

    def act(self, features: np.ndarray, rng: Generator | None) -> np.ndarray:
        """Draw actions, or take the mean."""
        mean = self.mean(features)
        if rng is None:
            return mean
        low, high = self.bounds
        deviation = np.exp(np.minimum(np.maximum(self.log_std(features), low), high))
        noise = rng.standard_normal(mean.shape, np.float32)
        return np.asarray(mean + deviation * noise)


@dataclass(frozen=True)
class TaskPolicy:
    """What one agent does on one task."""

    body: tuple[Layer, ...]
    activation: Activation
    head: Choices | Gaussian
    mean: np.ndarray | None
    """What is subtracted from observations first, if they are normalised."""
    deviation: np.ndarray | None
    """What they are divided by then."""
    scale: float
    """Factor on each input."""
    eyes: ConvolutionStack | None = None

    def act(
        self,
        observation: np.ndarray,
        rng: Generator | None,
        beside: np.ndarray | None = None,
    ) -> np.ndarray:
        """Act on one flat observation or a batch: draw, or greedily without `rng`.

        `beside` is what is seen beside it: the last action and reward, if they are.
        """
        return self.head.act(self._features(observation, beside), rng)

    def _features(
        self, observation: np.ndarray, beside: np.ndarray | None
    ) -> np.ndarray:
        inputs = observation.astype(np.float32, copy=False)
        if self.mean is not None:
            inputs = (inputs - self.mean) / self.deviation
        if self.scale != 1.0:
            inputs = inputs * np.float32(self.scale)
        if self.eyes is not None:
            inputs = self.eyes(inputs)
        elif beside is not None:
            inputs = np.concatenate([inputs, beside], -1)
        for layer in self.body:
            inputs = layer(inputs)
            inputs = (
                np.maximum(inputs, 0) if self.activation == "relu" else np.tanh(inputs)
            )
        if self.eyes is not None and beside is not None:
            inputs = np.concatenate([inputs, beside], -1)
        return inputs
