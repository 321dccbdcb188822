"""The last action and reward in each environment, for networks that see them."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from personae.types import WithPreviousStep


class PreviousSteps:
    """What led to what environments show; nothing did at the start of an episode."""

    def __init__(self, space: gym.Space[Any], num: int):
        shape, kind = action_layout(space)
        self._action = np.zeros((num, *shape), kind)
        self._reward = np.zeros(num, np.float32)

    def note(self, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Keep what was done, and what it brought."""
        self._action = actions.astype(self._action.dtype)
        self._reward = rewards.astype(np.float32)

    def forget(self, anew: np.ndarray) -> None:
        """Start anew where an episode does."""
        self._action[anew] = 0
        self._reward[anew] = 0

    def beside(self, shown: Any) -> WithPreviousStep:
        """Return what environments show with what led to it."""
        remembered: Any = (self._action.copy(), self._reward.copy())
        return WithPreviousStep(shown, *remembered)

    def save(self) -> dict[str, np.ndarray]:
        """Return what is remembered, as arrays."""
        return {"last_action": self._action, "last_reward": self._reward}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Remember what was saved."""
        self._action, self._reward = saved["last_action"], saved["last_reward"]


def action_layout(space: gym.Space[Any]) -> tuple[tuple[int, ...], Any]:
    """Return the shape and the type of a policy's action."""
    if isinstance(space, gym.spaces.Discrete):
        return (), np.int32
    size = int(np.prod(space.shape or ()))
    return (size,), np.float32 if isinstance(space, gym.spaces.Box) else np.int32
