"""The previous action and reward of host environments, for networks that see them."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from jaxtyping import Bool, Float

from personae.types import Space, WithPreviousStep


class PreviousSteps:
    """The last action and reward of each environment; zeros at the start of an episode.

    On the device they are part of the environments' state (`device.py`).
    """

    def __init__(self, space: Space, num: int):
        shape, kind = action_layout(space)
        self._action = np.zeros((num, *shape), kind)
        self._reward = np.zeros(num, np.float32)

    def record(self, actions: np.ndarray, rewards: Float[np.ndarray, " envs"]) -> None:
        """Take in the actions of a step, and the rewards that they brought."""
        self._action = actions.astype(self._action.dtype)
        self._reward = rewards.astype(np.float32)

    def reset(self, started: Bool[np.ndarray, " envs"]) -> None:
        """Set the entries of environments that started an episode to zero."""
        self._action[started] = 0
        self._reward[started] = 0

    def attach(self, observations: Any) -> WithPreviousStep:
        """Return observations with the steps that led to them."""
        # Copies, as the entries change before the observation has been learned from.
        action: Any = self._action.copy()
        reward: Any = self._reward.copy()
        return WithPreviousStep(observations, action, reward)

    def save(self) -> dict[str, np.ndarray]:
        """Return the entries as arrays by name."""
        return {"last_action": self._action, "last_reward": self._reward}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Take the entries that `save` returned."""
        self._action, self._reward = saved["last_action"], saved["last_reward"]


def action_layout(space: Space) -> tuple[tuple[int, ...], type[np.generic]]:
    """Return the shape and the type of a policy's action."""
    if isinstance(space, gym.spaces.Discrete):
        return (), np.int32
    size = int(np.prod(space.shape or ()))
    return (size,), np.float32 if isinstance(space, gym.spaces.Box) else np.int32
