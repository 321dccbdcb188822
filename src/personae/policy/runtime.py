"""The network of one agent on one task, in NumPy alone."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from personae.encoding import clip

Generator = np.random.Generator
LAYERS_PER_STAGE = 5
"""Of residual networks: a convolution with max pooling, and two blocks of two."""
Activation: TypeAlias = Literal["relu", "tanh"]


class Layer(NamedTuple):
    """A linear map, `[out, in]`."""

    weight: np.ndarray
    bias: np.ndarray | None

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Map one input, or a batch of them."""
        outputs: np.ndarray = inputs @ self.weight.T
        # In place, as the product is an array of its own.
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
        images = _pad_images(images, self.padding, 0.0)
        # Windows are a view; only the patches under the stride are copied.
        windows = np.lib.stride_tricks.sliding_window_view(
            images, (kernel, kernel), axis=(-3, -2)
        )[..., :: self.stride, :: self.stride, :, :, :]
        patches = windows.reshape(*windows.shape[:-3], -1)
        result: np.ndarray = patches @ self.weight.reshape(outputs, -1).T
        return result if self.bias is None else result + self.bias


def _pad_images(images: np.ndarray, width: int, value: float) -> np.ndarray:
    """Add a margin around images, `[..., row, column, channel]`."""
    if width == 0:
        return images
    margins = [(0, 0)] * (images.ndim - 3) + [(width, width)] * 2 + [(0, 0)]
    return np.pad(images, margins, constant_values=value)


def _max_pool(images: np.ndarray) -> np.ndarray:
    """Return the largest value of each 3 x 3 pixels, with a stride of 2."""
    # A margin of minus infinity never wins, as with JAX's and PyTorch's pooling.
    windows = np.lib.stride_tricks.sliding_window_view(
        _pad_images(images, 1, -np.inf), (3, 3), axis=(-3, -2)
    )
    largest: np.ndarray = windows[..., ::2, ::2, :, :, :].max((-2, -1))
    return largest


@dataclass(frozen=True)
class ConvolutionStack:
    """Convolutions with ReLU between them, in front of the body."""

    layers: tuple[Convolution, ...]
    image_shape: tuple[int, ...]
    """The shape of an image in an observation."""
    residual: bool = False
    """Whether layers come in stages of five; otherwise they form one sequence."""

    def __call__(self, flat: np.ndarray) -> np.ndarray:
        """Return the features of flat images."""
        images = flat.reshape(*flat.shape[:-1], *self.image_shape)
        # Images have few channels: the smaller end of the shape is the channel axis.
        if self.image_shape[-1] > self.image_shape[0]:
            images = np.moveaxis(images, -3, -1)
        apply_layers = self._apply_stages if self.residual else self._apply_sequence
        # Features are flattened with channels first, as PyTorch does: so the layers
        # after them were trained.
        features = np.moveaxis(apply_layers(images), -1, -3)
        return features.reshape(*flat.shape[:-1], -1)

    def _apply_sequence(self, images: np.ndarray) -> np.ndarray:
        for layer in self.layers:
            images = np.maximum(layer(images), 0)
        return images

    def _apply_stages(self, images: np.ndarray) -> np.ndarray:
        for start in range(0, len(self.layers), LAYERS_PER_STAGE):
            first, *blocks = self.layers[start : start + LAYERS_PER_STAGE]
            images = _max_pool(first(images))
            for inner, outer in zip(blocks[::2], blocks[1::2], strict=True):
                hidden = np.maximum(inner(np.maximum(images, 0)), 0)
                images = images + outer(hidden)
        return np.maximum(images, 0)


@dataclass(frozen=True)
class CategoricalHead:
    """One choice among finitely many actions, or several choices at once."""

    logits: Layer
    sizes: tuple[int, ...]
    """Number of actions of each choice, whose logits come one after another. Logits
    beyond them belong to actions that the task does not have."""
    scalar: bool
    """Whether an action is one number instead of a list."""

    def act(self, features: np.ndarray, rng: Generator | None) -> np.ndarray:
        """Draw actions, or return the most likely ones without `rng`."""
        logits, actions, start = self.logits(features), [], 0
        for size in self.sizes:
            values = logits[..., start : start + size]
            if rng is not None:
                # The largest logit after Gumbel noise is a draw from the softmax.
                values = values + rng.gumbel(size=values.shape)
            # 32 bits, as JAX has them.
            actions.append(np.asarray(np.argmax(values, -1), np.int32))
            start += size
        return actions[0] if self.scalar else np.stack(actions, -1)


@dataclass(frozen=True)
class GaussianHead:
    """Real numbers around a mean; the task's action specification clips them."""

    mean: Layer
    log_std: Layer
    log_std_bounds: tuple[float, float]

    def act(self, features: np.ndarray, rng: Generator | None) -> np.ndarray:
        """Draw actions, or return their mean without `rng`."""
        mean = self.mean(features)
        if rng is None:
            return mean
        deviation = np.exp(clip(self.log_std(features), *self.log_std_bounds))
        noise = rng.standard_normal(mean.shape, np.float32)
        return np.asarray(mean + deviation * noise)


@dataclass(frozen=True)
class TaskPolicy:
    """The policy of one agent on one task."""

    body: tuple[Layer, ...]
    activation: Activation
    head: CategoricalHead | GaussianHead
    mean: np.ndarray | None
    """Subtracted from observations, if they are normalised."""
    deviation: np.ndarray | None
    """Divisor of observations, if they are normalised."""
    scale: float
    """Factor on each input."""
    convolutions: ConvolutionStack | None = None

    def act(
        self,
        observation: np.ndarray,
        rng: Generator | None,
        extra_inputs: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the action for a flat observation, or actions for a batch.

        Args:
            observation: Numbers, `[..., observation_size]`.
            rng: Draws actions; without it they are the most likely ones.
            extra_inputs: The previous action and reward, if the network has them as
                inputs, `[..., num_extra_inputs]`.
        """
        return self.head.act(self.features(observation, extra_inputs), rng)

    def features(
        self, observation: np.ndarray, extra_inputs: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the outputs of the last layer before the head."""
        inputs = observation.astype(np.float32, copy=False)
        if self.mean is not None:
            inputs = (inputs - self.mean) / self.deviation
        # A product with 1 would still copy every observation.
        if self.scale != 1.0:
            inputs = inputs * np.float32(self.scale)
        if self.convolutions is not None:
            inputs = self.convolutions(inputs)
        elif extra_inputs is not None:
            inputs = np.concatenate([inputs, extra_inputs], -1)
        for layer in self.body:
            inputs = layer(inputs)
            inputs = (
                np.maximum(inputs, 0) if self.activation == "relu" else np.tanh(inputs)
            )
        # Behind convolutions, extra inputs enter at the head, as in training.
        if self.convolutions is not None and extra_inputs is not None:
            inputs = np.concatenate([inputs, extra_inputs], -1)
        return inputs
