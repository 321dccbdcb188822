"""One environment of EnvPool, as Gymnasium knows them: to be looked at and tried."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from personae.envs.vector import make_envpool, success_in


class EnvPoolEnv(gym.Env[Any, Any]):
    """A pool of one. EnvPool takes a seed when it makes one, so each seed makes one."""

    def __init__(
        self, name: str, options: Mapping[str, Any], render_mode: str | None = None
    ):
        self._name = name
        self._options = {**options, "render_mode": render_mode}
        self.render_mode = render_mode
        self._pool = self._make(0)
        self.observation_space = self._pool.single_observation_space
        self.action_space = self._pool.single_action_space

    def _make(self, seed: int) -> Any:
        return make_envpool(self._name, 1, seed, self._options)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        if seed is not None:
            self._pool.close()
            self._pool = self._make(seed)
        return self._pool.reset()[0][0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act."""
        shown, rewards, terminated, truncated, info = self._pool.step(
            np.asarray(action)[None]
        )
        success = success_in(info)
        told = {} if success is None else {"success": bool(success[0])}
        ends = bool(terminated[0]), bool(truncated[0])
        return shown[0], float(rewards[0]), *ends, told

    def render(self) -> Any:
        """Return a picture."""
        return self._pool.render()[0]

    def close(self) -> None:
        """End the pool."""
        self._pool.close()
