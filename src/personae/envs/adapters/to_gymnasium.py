"""JAX environments as Gymnasium environments, for people and their tools."""

from typing import Any

import gymnasium as gym
import jax
import numpy as np
from jaxtyping import UInt8

from personae.envs.contract import Environment, Params, State
from personae.envs.registry import find_family
from personae.types import Observation


class GymnasiumAdapter(gym.Env[Any, Any]):
    """One task of a JAX environment behind Gymnasium's interface."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self, env: Environment, params: Params, render_mode: str | None = None
    ):
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.render_mode = render_mode
        self._env = env
        self._params = params
        self._reset = jax.jit(env.reset)
        self._step = jax.jit(env.step)
        self._state: State = None
        self._observation: Observation = None

    def _key(self) -> jax.Array:
        return jax.random.key(int(self.np_random.integers(2**31)))

    def _show(self, observation: Observation) -> Any:
        self._observation = jax.tree.map(np.asarray, observation)
        return self._observation

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self._state, observation = self._reset(self._params, self._key())
        return self._show(observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Advance one step."""
        self._state, step = self._step(
            self._params, self._state, np.asarray(action), self._key()
        )
        return (
            self._show(step.observation),
            float(step.reward),
            bool(step.terminated),
            bool(step.truncated),
            {},
        )

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """Draw the current state in `rgb_array` mode."""
        if self.render_mode is None:
            return None
        return self._env.render(self._params, self._state, self._observation)


def make_adapter(
    family: str, render_mode: str | None = None, **options: Any
) -> GymnasiumAdapter:
    """Make one task of a family by its id; `gymnasium.make` calls this."""
    env, params = find_family(family)([options])
    one = jax.tree.map(lambda leaf: leaf[0], params)
    return GymnasiumAdapter(env, one, render_mode)
