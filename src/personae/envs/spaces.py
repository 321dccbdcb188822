"""Spaces of tasks that share a network: what fits together, and how it is made to.

A network sees one array per observation and gives one action. `SharedSpaces` says what these are
for all tasks of a curriculum, and turns what an environment has into it and back.
"""

from collections.abc import Sequence
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
    """The spaces of a network, and those of each task."""

    observation_space: gym.spaces.Box
    action_space: Space
    observation_spaces: tuple[Space, ...]
    action_spaces: tuple[Space, ...]

    @cached_property
    def num_actions(self) -> tuple[int, ...]:
        """How many of the network's actions each task has."""
        return tuple(_size(space) for space in self.action_spaces)

    def to_network(self, task: int, batch: np.ndarray) -> np.ndarray:
        """Turn a batch of a task's observations into the network's."""
        space, shape = self.observation_spaces[task], self.observation_space.shape
        if isinstance(space, gym.spaces.Discrete):
            batch = encoding.one_hot(batch - space.start, _length(space))
        if batch.shape[1:] == shape:
            return batch.astype(self.observation_space.dtype, copy=False)
        flat = batch.reshape(len(batch), -1).astype(self.observation_space.dtype)
        return encoding.pad(flat, shape[0])

    def to_env(self, task: int, batch: np.ndarray) -> np.ndarray:
        """Turn a batch of the network's actions into a task's."""
        space = self.action_spaces[task]
        if isinstance(space, gym.spaces.Box):
            own = batch[:, : self.num_actions[task]].reshape(-1, *space.shape)
            clipped = encoding.clip(own, space.low, space.high)
            return clipped.astype(space.dtype, copy=False)
        if isinstance(space, gym.spaces.Discrete):
            return batch.astype(np.int64) + space.start
        own = batch.reshape(-1, *(space.shape or ()))
        return own.astype(space.dtype) + space.start  # type: ignore[attr-defined]


def fit_spaces(
    observations: Sequence[Space],
    actions: Sequence[Space],
    names: Sequence[str],
    pad: bool,
) -> SharedSpaces:
    """Find spaces that all tasks fit into, or say which do not and what helps."""
    for name, seen, done in zip(names, observations, actions, strict=True):
        check_observation_space(name, seen)
        check_action_space(name, done)
    seen_by_all = _common_observation(observations, names, pad)
    done_by_all = _common_action(actions, names, pad)
    return SharedSpaces(seen_by_all, done_by_all, tuple(observations), tuple(actions))


def check_observation_space(name: str, space: Space) -> None:
    """Refuse observations that no network here can see."""
    numeric = isinstance(space, gym.spaces.Box) and space.dtype.kind in "fiu"
    if not (numeric or isinstance(space, gym.spaces.Discrete)):
        raise UsageError(
            f"task {name!r}: observations are {space}; Box and Discrete can be learned "
            'from. The wrapper {name = "FlattenObservation"} makes one Box of most'
        )


def check_action_space(name: str, space: Space) -> None:
    """Refuse actions that no policy here can take."""
    kinds = (gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.Box)
    if not isinstance(space, kinds):
        raise UsageError(
            f"task {name!r}: actions are {space}; Discrete, MultiDiscrete and Box can "
            "be taken"
        )


def _common_observation(
    spaces: Sequence[Space], names: Sequence[str], pad: bool
) -> gym.spaces.Box:
    shapes = [_seen_shape(space) for space in spaces]
    types = {np.dtype(_seen_type(space)) for space in spaces}
    kind = types.pop() if len(types) == 1 else np.dtype(np.float32)
    if len(set(shapes)) == 1:
        shape = shapes[0]
    elif pad:
        shape, kind = (max(map(_length, spaces)),), np.dtype(np.float32)
    else:
        raise _differ("observations", dict(zip(names, shapes, strict=True)))
    if kind == np.float64:
        kind = np.dtype(np.float32)
    low, high = (0, 255) if kind == np.uint8 else (-np.inf, np.inf)
    if kind.kind in "iu" and kind != np.uint8:
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return gym.spaces.Box(low, high, shape, kind.type)


def _common_action(spaces: Sequence[Space], names: Sequence[str], pad: bool) -> Space:
    first = spaces[0]
    kinds = {name: type(space).__name__ for name, space in zip(names, spaces)}  # noqa: B905
    if len(set(kinds.values())) > 1:
        raise UsageError(
            "tasks of one curriculum need actions of one kind, not "
            + ", ".join(f"{kind} ({name})" for name, kind in kinds.items())
        )
    widths = {name: _width(space) for name, space in zip(names, spaces, strict=True)}
    if len(set(widths.values())) == 1:
        return first
    if not pad or isinstance(first, gym.spaces.MultiDiscrete):
        raise _differ("actions", widths)
    most = max(_size(space) for space in spaces)
    if isinstance(first, gym.spaces.Discrete):
        return gym.spaces.Discrete(most)
    return gym.spaces.Box(-np.inf, np.inf, (most,), np.float32)


def _differ(what: str, found: dict[str, Any]) -> UsageError:
    listed = ", ".join(f"{value} ({name})" for name, value in found.items())
    return UsageError(
        f"tasks of one curriculum share a network, and their {what} differ: {listed}. "
        'fit = "pad" in [inputs] fills them up to the largest'
    )


def _length(space: Space) -> int:
    return int(np.prod(_seen_shape(space)))


def _seen_shape(space: Space) -> tuple[int, ...]:
    if isinstance(space, gym.spaces.Discrete):
        return (int(space.n),)
    assert space.shape is not None
    return tuple(space.shape)


def _seen_type(space: Space) -> Any:
    return np.float32 if isinstance(space, gym.spaces.Discrete) else space.dtype


def _size(space: Space) -> int:
    """Count a task's actions, or the dimensions of one."""
    return int(space.n) if isinstance(space, gym.spaces.Discrete) else _length(space)


def _width(space: Space) -> Any:
    if isinstance(space, gym.spaces.MultiDiscrete):
        return tuple(map(int, np.ravel(space.nvec)))
    return _size(space)
