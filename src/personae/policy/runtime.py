"""Acting with NumPy alone: one agent's network on one task."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

Generator = np.random.Generator
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

    def act(self, observation: np.ndarray, rng: Generator | None) -> np.ndarray:
        """Act on one flat observation or a batch: draw, or greedily without `rng`."""
        return self.head.act(self._features(observation), rng)

    def _features(self, observation: np.ndarray) -> np.ndarray:
        inputs = observation.astype(np.float32, copy=False)
        if self.mean is not None:
            inputs = (inputs - self.mean) / self.deviation
        if self.scale != 1.0:
            inputs = inputs * np.float32(self.scale)
        for layer in self.body:
            inputs = layer(inputs)
            inputs = (
                np.maximum(inputs, 0) if self.activation == "relu" else np.tanh(inputs)
            )
        return inputs
