"""Spaces of tasks that share a network.

A network takes one array per observation and returns one action. `SharedSpaces` holds
the spaces of both for all tasks of a curriculum, and converts an environment's
observations to the network's, and the network's actions to an environment's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np

from personae import encoding
from personae.errors import UsageError
from personae.types import Space


@dataclass(frozen=True)
class SharedSpaces:
    """The spaces of a network, and those of each task's environment.

    Example:
        shared = fit_spaces(observation_spaces, action_spaces, names, pad=True)
        action = network(shared.to_network(task, observations))
        env.step(shared.to_env(task, action))
    """

    observation_space: gym.spaces.Box
    """The space of the network's inputs."""
    action_space: Space
    """The space of the network's actions."""
    observation_spaces: tuple[Space, ...]
    """The space of each task's observations."""
    action_spaces: tuple[Space, ...]
    """The space of each task's actions."""

    @cached_property
    def num_actions(self) -> tuple[int, ...]:
        """The number of the network's actions that each task has."""
        return tuple(_size(space) for space in self.action_spaces)

    def to_network(self, task: int, observations: np.ndarray) -> np.ndarray:
        """Convert a batch of a task's observations to the network's inputs."""
        space, shape = self.observation_spaces[task], self.observation_space.shape
        if isinstance(space, gym.spaces.Discrete):
            observations = encoding.one_hot(observations - space.start, _length(space))
        # Without padding the array is passed on, not copied: this runs at every step.
        if observations.shape[1:] == shape:
            return observations.astype(self.observation_space.dtype, copy=False)
        flat = observations.reshape(len(observations), -1)
        flat = flat.astype(self.observation_space.dtype)
        return encoding.pad(flat, shape[0])

    def to_env(self, task: int, actions: np.ndarray) -> np.ndarray:
        """Convert a batch of the network's actions to a task's.

        Continuous actions are clipped to the task's bounds; discrete ones begin at the
        task's first number, where the network's begin at 0.
        """
        space = self.action_spaces[task]
        if isinstance(space, gym.spaces.Box):
            own = actions[:, : self.num_actions[task]].reshape(-1, *space.shape)
            clipped = encoding.clip(own, space.low, space.high)
            return clipped.astype(space.dtype, copy=False)
        if isinstance(space, gym.spaces.Discrete):
            return actions.astype(np.int64) + space.start
        own = actions.reshape(-1, *(space.shape or ()))
        return own.astype(space.dtype) + space.start  # type: ignore[attr-defined]


def fit_spaces(
    observation_spaces: Sequence[Space],
    action_spaces: Sequence[Space],
    names: Sequence[str],
    pad: bool,
) -> SharedSpaces:
    """Return the spaces of a network that serves all tasks.

    Args:
        observation_spaces: The space of each task's observations.
        action_spaces: The space of each task's actions.
        names: The names of the tasks, for error messages.
        pad: Whether to fill up smaller spaces to the largest; otherwise all must be
            equally large.
    """
    spaces = zip(names, observation_spaces, action_spaces, strict=True)
    for name, observation_space, action_space in spaces:
        check_observation_space(name, observation_space)
        check_action_space(name, action_space)
    return SharedSpaces(
        _common_observation_space(observation_spaces, names, pad),
        _common_action_space(action_spaces, names, pad),
        tuple(observation_spaces),
        tuple(action_spaces),
    )


def check_observation_space(name: str, space: Space) -> None:
    """Raise an error unless networks can take observations of this space."""
    numeric = isinstance(space, gym.spaces.Box) and space.dtype.kind in "fiu"
    if not (numeric or isinstance(space, gym.spaces.Discrete)):
        raise UsageError(
            f"task {name!r}: observations are {space}; Box and Discrete can be learned "
            'from. The wrapper {name = "FlattenObservation"} makes one Box of most'
        )


def check_action_space(name: str, space: Space) -> None:
    """Raise an error unless policies can return actions of this space."""
    kinds = (gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.Box)
    if not isinstance(space, kinds):
        raise UsageError(
            f"task {name!r}: actions are {space}; Discrete, MultiDiscrete and Box can "
            "be taken"
        )


def _common_observation_space(
    spaces: Sequence[Space], names: Sequence[str], pad: bool
) -> gym.spaces.Box:
    shapes = [_input_shape(space) for space in spaces]
    dtypes = {_input_dtype(space) for space in spaces}
    same_dtype = len(dtypes) == 1
    dtype: np.dtype[Any] = dtypes.pop() if same_dtype else np.dtype(np.float32)
    if len(set(shapes)) == 1:
        shape = shapes[0]
    elif pad:
        shape, dtype = (max(map(_length, spaces)),), np.dtype(np.float32)
    else:
        raise _difference_error("observations", dict(zip(names, shapes, strict=True)))
    if dtype == np.float64:  # JAX computes in 32 bits
        dtype = np.dtype(np.float32)
    # No closer bounds than the type's: those of one task need not hold in the others.
    low, high = (0, 255) if dtype == np.uint8 else (-np.inf, np.inf)
    if dtype.kind in "iu" and dtype != np.uint8:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return gym.spaces.Box(low, high, shape, dtype.type)


def _common_action_space(
    spaces: Sequence[Space], names: Sequence[str], pad: bool
) -> Space:
    first = spaces[0]
    kinds = {
        name: type(space).__name__ for name, space in zip(names, spaces, strict=True)
    }
    if len(set(kinds.values())) > 1:
        raise UsageError(
            "tasks of one curriculum need actions of one kind, not "
            + ", ".join(f"{kind} ({name})" for name, kind in kinds.items())
        )
    widths = {name: _width(space) for name, space in zip(names, spaces, strict=True)}
    if len(set(widths.values())) == 1:
        return first
    # The logits of MultiDiscrete lie side by side: padding one choice moves the others.
    if not pad or isinstance(first, gym.spaces.MultiDiscrete):
        raise _difference_error("actions", widths)
    largest = max(_size(space) for space in spaces)
    if isinstance(first, gym.spaces.Discrete):
        return gym.spaces.Discrete(largest)
    return gym.spaces.Box(-np.inf, np.inf, (largest,), np.float32)


def _difference_error(quantity: str, sizes: Mapping[str, object]) -> UsageError:
    listed = ", ".join(f"{size} ({name})" for name, size in sizes.items())
    return UsageError(
        f"tasks of one curriculum share a network, and their {quantity} differ: "
        f'{listed}. fit = "pad" in [inputs] fills them up to the largest'
    )


def _length(space: Space) -> int:
    return int(np.prod(_input_shape(space)))


def _input_shape(space: Space) -> tuple[int, ...]:
    """Return the shape of a network's input: discrete observations are one-hot."""
    if isinstance(space, gym.spaces.Discrete):
        return (int(space.n),)
    assert space.shape is not None
    return tuple(space.shape)


def _input_dtype(space: Space) -> np.dtype[Any]:
    is_one_hot = isinstance(space, gym.spaces.Discrete)
    return np.dtype(np.float32 if is_one_hot else space.dtype)


def _size(space: Space) -> int:
    """Return the number of a task's actions, or the dimensions of a continuous one."""
    return int(space.n) if isinstance(space, gym.spaces.Discrete) else _length(space)


def _width(space: Space) -> int | tuple[int, ...]:
    """Return the size of a space; two spaces of one kind and width are compatible."""
    if isinstance(space, gym.spaces.MultiDiscrete):
        return tuple(map(int, np.ravel(space.nvec)))
    return _size(space)
