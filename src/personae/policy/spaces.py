"""Observations and actions of a task as plain data, and their encoding in NumPy."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from personae.encoding import clip, one_hot, pad
from personae.errors import UsageError, require
from personae.serialise import LEFT_OUT

NUMBER_TYPES = {f"float{bits}" for bits in (16, 32, 64)} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
MAX_NUMBER = 1 << 31
"""Larger than the number of any action, so that sums fit into 64 bits."""
MAX_DIMENSIONS = 8
EnvAction: TypeAlias = np.ndarray | np.generic
"""An action of an environment, or a batch: an array, or one number."""


def _check_shape(name: str, shape: tuple[int, ...]) -> None:
    valid = all(size >= 0 for size in shape) and len(shape) <= MAX_DIMENSIONS
    require(valid, f"{name} is {list(shape)}")


@dataclass(frozen=True)
class ObservationSpec:
    """The observations of an environment."""

    shape: tuple[int, ...]
    num_values: int | None = None
    """Number of values, if an observation is one of finitely many, as of a Discrete
    space. The network then has it as a one-hot vector."""
    start: int = field(default=0, metadata=LEFT_OUT)
    """The first of these values."""

    def __post_init__(self) -> None:
        _check_shape("the shape of observations", self.shape)
        count = 1 if self.num_values is None else self.num_values
        valid = self.num_values is None or self.shape == ()
        valid = valid and 1 <= count < MAX_NUMBER and abs(self.start) < MAX_NUMBER
        require(
            valid,
            f"observations of the shape {list(self.shape)} with {self.num_values} "
            f"values from {self.start} on",
        )

    @property
    def size(self) -> int:
        """Numbers of an observation that the network has as inputs."""
        return math.prod(self.shape) if self.num_values is None else self.num_values

    def encode(self, observation: np.ndarray, size: int) -> np.ndarray:
        """Return one observation, or a batch, as flat float32 of a size.

        Args:
            observation: An array of the spec's shape, or a batch of such arrays.
            size: Number of entries; those that the task lacks are 0.
        """
        batch = observation.shape[: observation.ndim - len(self.shape)]
        # One axis at most: with more, most arrays of a wrong shape would be batches.
        if observation.shape[len(batch) :] != self.shape or len(batch) > 1:
            raise UsageError(
                f"observations have the shape {self.shape}, or {('batch', *self.shape)}"
                f", not {observation.shape}"
            )
        if self.num_values is not None:
            observation = one_hot(self._index(observation), self.num_values)
        flat = observation.reshape(*batch, self.size).astype(np.float32, copy=False)
        return pad(flat, size)

    def _index(self, observation: np.ndarray) -> np.ndarray:
        """Return the positions of observations among the values that they may have."""
        assert self.num_values is not None
        # Arithmetic on a single observation returns a number: an array again for it.
        index = np.asarray(observation.astype(np.int64) - self.start)
        outside = ~((index >= 0) & (index < self.num_values))
        # The message is made only for an error: this runs at every step.
        if outside.any():
            raise UsageError(
                f"observations lie in {self.start}..{self.start + self.num_values - 1}"
                f", not at {observation[outside].ravel()[:1]}"
            )
        return index


@dataclass(frozen=True)
class ActionSpec:
    """The actions of an environment."""

    kind: Literal["discrete", "multi-discrete", "box"]
    shape: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    sizes: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    """Number of actions of each choice."""
    start: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    """The number of the first action of each choice."""
    low: tuple[float | None, ...] = field(default=(), metadata=LEFT_OUT)
    """Smallest values; None stands for no bound."""
    high: tuple[float | None, ...] = field(default=(), metadata=LEFT_OUT)
    """Largest values; None stands for no bound."""
    dtype: str = field(default="int64", metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        _check_shape("the shape of actions", self.shape)
        require(self.dtype in NUMBER_TYPES, f"actions are of type {self.dtype!r}")
        choices = 1 if self.kind == "discrete" else math.prod(self.shape)
        expected = (0, choices) if self.kind == "box" else (choices, 0)
        lengths = (len(self.sizes), len(self.low))
        require(
            lengths == expected,
            f"{self.kind} actions have {lengths} sizes and bounds, not {expected}",
        )
        paired = len(self.high) == len(self.low) and len(self.start) == len(self.sizes)
        require(paired, "each size needs a start, and each lower bound an upper bound")
        valid_sizes = all(1 <= size < MAX_NUMBER for size in self.sizes)
        valid_starts = all(abs(start) < MAX_NUMBER for start in self.start)
        require(
            valid_sizes and valid_starts,
            f"{self.sizes} actions from {self.start} on",
        )
        if self.kind != "box":
            self._check_dtype()

    def _check_dtype(self) -> None:
        """Raise an error unless the type holds the numbers of all actions."""
        limits = np.iinfo(self.dtype) if "int" in self.dtype else None
        ends = [s + n - 1 for s, n in zip(self.start, self.sizes, strict=True)]
        fits = limits is not None and all(
            limits.min <= number <= limits.max for number in (*self.start, *ends)
        )
        require(fits, f"actions {self.start} to {ends} are of type {self.dtype!r}")

    @property
    def num_actions(self) -> int:
        """Number of actions, or of their dimensions."""
        return self.sizes[0] if self.kind == "discrete" else math.prod(self.shape)

    def decode(self, actions: np.ndarray) -> EnvAction:
        """Return the environment's action for the network's, or those of a batch."""
        if self.kind == "discrete":
            # The empty index turns an array without dimensions into a number, which
            # environments use as a key.
            numbers: EnvAction = (actions.astype(self.dtype) + self.start[0])[()]
            return numbers
        # A tuple, as both may be empty: for a single number without a batch.
        shape = (*actions.shape[:-1], *self.shape)
        if self.kind == "multi-discrete":
            shaped = (actions + np.asarray(self.start)).reshape(shape)
            return shaped.astype(self.dtype)
        low, high = self.bounds
        # Dimensions that only other tasks have come after this task's own.
        shaped = actions[..., : self.num_actions].reshape(shape)
        return clip(shaped, low, high).astype(self.dtype, copy=False)

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest values, in the shape of an action."""
        # Whole numbers have no infinity, which stands for no bound.
        dtype = self.dtype if self.dtype.startswith("float") else "float64"
        low = [-np.inf if value is None else value for value in self.low]
        high = [np.inf if value is None else value for value in self.high]
        lower, upper = (np.asarray(v, dtype).reshape(self.shape) for v in (low, high))
        return lower, upper
