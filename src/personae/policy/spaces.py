"""What a task shows and takes, as plain data: into the network, and out of it."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from personae.errors import UsageError, require
from personae.serialise import LEFT_OUT

NUMBERS = {f"float{bits}" for bits in (16, 32, 64)} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
LARGEST = 1 << 31
"""Above all numbers of actions."""


def _check_sizes(name: str, sizes: tuple[int, ...]) -> None:
    fits = all(size >= 0 for size in sizes) and len(sizes) <= 8
    require(fits, f"{name} is {list(sizes)}")


@dataclass(frozen=True)
class ObservationSpec:
    """What an environment shows."""

    shape: tuple[int, ...]
    choices: int | None = None
    """How many things it may be, if it shows one of finitely many; then one-hot."""
    start: int = field(default=0, metadata=LEFT_OUT)
    """The number of the first of them."""

    def __post_init__(self) -> None:
        _check_sizes("the shape of observations", self.shape)
        choices = 1 if self.choices is None else self.choices
        alone = self.choices is None or self.shape == ()
        fits = alone and 1 <= choices < LARGEST and abs(self.start) < LARGEST
        require(fits, f"one of {self.choices} things from {self.start} on")

    @property
    def size(self) -> int:
        """How many numbers the network sees of it."""
        return math.prod(self.shape) if self.choices is None else self.choices

    def flat(self, observation: np.ndarray, inputs: int) -> np.ndarray:
        """Turn one observation, or a batch, into so many inputs; others are 0."""
        batch = observation.shape[: observation.ndim - len(self.shape)]
        if observation.shape[len(batch) :] != self.shape or len(batch) > 1:
            raise UsageError(
                f"observations have the shape {self.shape}, or {('batch', *self.shape)}"
                f", not {observation.shape}"
            )
        if self.choices is not None:
            observation = self._one_hot(observation)
        flat = observation.reshape(*batch, self.size).astype(np.float32, copy=False)
        if flat.shape[-1] == inputs:
            return flat
        padded = np.zeros((*batch, inputs), np.float32)
        padded[..., : flat.shape[-1]] = flat
        return padded

    def _one_hot(self, observation: np.ndarray) -> np.ndarray:
        assert self.choices is not None
        place = observation.astype(np.int64) - self.start
        outside = ~((place >= 0) & (place < self.choices))
        require(
            not outside.any(),
            f"observations lie in {self.start}..{self.start + self.choices - 1}, not "
            f"at {observation[outside].ravel()[:1] if outside.any() else None}",
        )
        return (np.arange(self.choices) == place[..., None]).astype(np.float32)


@dataclass(frozen=True)
class ActionSpec:
    """What actions an environment takes."""

    kind: Literal["discrete", "multi-discrete", "box"]
    shape: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    sizes: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    """How many actions each choice is among."""
    start: tuple[int, ...] = field(default=(), metadata=LEFT_OUT)
    """The number of the first action of each choice."""
    low: tuple[float | None, ...] = field(default=(), metadata=LEFT_OUT)
    """Smallest values; None where there is none."""
    high: tuple[float | None, ...] = field(default=(), metadata=LEFT_OUT)
    dtype: str = field(default="int64", metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        _check_sizes("the shape of actions", self.shape)
        require(self.dtype in NUMBERS, f"actions are of type {self.dtype!r}")
        choices = 1 if self.kind == "discrete" else math.prod(self.shape)
        wanted = (0, choices) if self.kind == "box" else (choices, 0)
        found = (len(self.sizes), len(self.low))
        require(found == wanted, f"{self.kind} actions have {found} sizes and bounds")
        bounded = len(self.high) == len(self.low)
        require(bounded and len(self.start) == len(self.sizes), "bounds in pairs")
        counted = all(1 <= size < LARGEST for size in self.sizes)
        placed = all(abs(start) < LARGEST for start in self.start)
        require(counted and placed, f"{self.sizes} actions from {self.start} on")
        if self.kind != "box":
            self._check_numbers()

    def _check_numbers(self) -> None:
        """Refuse a type that does not hold all actions' numbers."""
        whole = "int" in self.dtype
        held = np.iinfo(self.dtype) if whole else None
        ends = [s + n - 1 for s, n in zip(self.start, self.sizes, strict=True)]
        fits = held is not None and all(
            held.min <= number <= held.max for number in (*self.start, *ends)
        )
        require(fits, f"actions {self.start} to {ends} are of type {self.dtype!r}")

    @property
    def number(self) -> int:
        """How many actions there are, or how many dimensions they have."""
        return self.sizes[0] if self.kind == "discrete" else math.prod(self.shape)

    def own(self, actions: np.ndarray) -> Any:
        """Turn the network's action, or a batch of them, into the environment's."""
        if self.kind == "discrete":
            # A number, not an array, if there is one: environments look it up.
            return (actions.astype(self.dtype) + self.start[0])[()]
        batch = actions.shape[:-1]
        if self.kind == "multi-discrete":
            shaped = (actions + np.asarray(self.start)).reshape(*batch, *self.shape)
            return np.asarray(shaped.astype(self.dtype))
        low, high = self.bounds
        own = actions[..., : self.number].reshape(*batch, *self.shape)
        clipped = np.minimum(np.maximum(own, low), high)
        return np.asarray(clipped.astype(self.dtype, copy=False))

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest values, in the shape of an action."""
        kind = self.dtype if self.dtype.startswith("float") else "float64"
        low = [-np.inf if value is None else value for value in self.low]
        high = [np.inf if value is None else value for value in self.high]
        shaped = [np.asarray(each, kind).reshape(self.shape) for each in (low, high)]
        return shaped[0], shaped[1]
