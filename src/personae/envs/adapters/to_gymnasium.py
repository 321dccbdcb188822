"""Adapter that shows a JAX environment as a Gymnasium environment."""

import jax
import numpy as np
from jaxtyping import PyTree, UInt8

from personae.envs.contract import Environment, Params, State
from personae.envs.registry import find_family
from personae.serialise import PlainData
from personae.types import Env, Observation


class GymnasiumAdapter(Env):
    """One task of a JAX environment behind Gymnasium's interface.

    Example: `gymnasium.make("personae/CTGraph-v0", depth=2, goal=(0, 1))`
    """

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
        self._observation: PyTree[np.ndarray] = None

    def _key(self) -> jax.Array:
        # Gymnasium seeds one generator per environment; each JAX key is drawn from it,
        # so that a seed repeats the episodes after it as Gymnasium promises.
        return jax.random.key(int(self.np_random.integers(2**31)))

    def _to_host(self, observation: Observation) -> PyTree[np.ndarray]:
        """Return an observation in NumPy, and remember it for `render`."""
        self._observation = jax.tree.map(np.asarray, observation)
        return self._observation

    def reset(
        self, *, seed: int | None = None, options: PlainData | None = None
    ) -> tuple[PyTree[np.ndarray], PlainData]:
        """Start an episode."""
        super().reset(seed=seed)
        self._state, observation = self._reset(self._params, self._key())
        return self._to_host(observation), {}

    def step(
        self, action: object
    ) -> tuple[PyTree[np.ndarray], float, bool, bool, PlainData]:
        """Advance one step; the info has "success" if the environment reports it."""
        self._state, step = self._step(
            self._params, self._state, np.asarray(action), self._key()
        )
        info = {} if step.success is None else {"success": bool(step.success)}
        return (
            self._to_host(step.observation),
            float(step.reward),
            bool(step.terminated),
            bool(step.truncated),
            info,
        )

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """Draw the current state in `rgb_array` mode."""
        if self.render_mode is None:
            return None
        return self._env.render(self._params, self._state, self._observation)


def make_adapter(
    family: str, render_mode: str | None = None, **options: object
) -> GymnasiumAdapter:
    """Make one task of a family by its id; `gymnasium.make` calls this."""
    env, params = find_family(family)([options])
    single = jax.tree.map(lambda leaf: leaf[0], params)
    return GymnasiumAdapter(env, single, render_mode)
