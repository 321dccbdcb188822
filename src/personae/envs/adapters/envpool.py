"""Environments of EnvPool: side by side, or one as a Gymnasium environment."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from personae.envs.adapters.procgen import is_procgen, load_qt
from personae.envs.vector import Step, success_in
from personae.errors import PersonaeError, UsageError, nearest_match_error
from personae.serialise import PlainData
from personae.types import Env

ENVPOOL = "envpool/"
"""The prefix of the environments that EnvPool makes."""
RUNAWAY = (
    "from reset to reset its goal runs away (seen in EnvPool 1.2.5); "
    "personae/MetaWorld-v0 has the task, too"
)
UNSOUND = {"MetaWorld/Hammer-v3": RUNAWAY, "MetaWorld/ShelfPlace-v3": RUNAWAY}
"""Environments of EnvPool with a known defect, and the reason to refuse each."""


class SelfResettingEnvs:
    """A vector environment that starts the next episodes by itself, as EnvPool's do.

    Args:
        env: The vector environment; EnvPool's have no types.
        seed: Seed of its resets, if it takes one; EnvPool takes it when a pool is made.
    """

    def __init__(self, env: Any, seed: int | None = None):
        self._env, self._seed = env, seed
        self._mode = AutoresetMode(env.metadata.get("autoreset_mode", "NextStep"))
        self._resets_next = np.zeros(env.num_envs, bool)

    def start(self) -> np.ndarray:
        """Start an episode in each environment; return the observations."""
        self._resets_next[:] = False
        return np.asarray(self._env.reset(seed=self._seed)[0])

    def send(self, actions: np.ndarray) -> None:
        """Start a step of all environments, without waiting for the answers."""
        self._env.send(actions)

    def receive(self) -> Step:
        """Wait for the answers to the actions that were sent."""
        return self._to_step(*self._env.recv())

    def step(self, actions: np.ndarray) -> Step:
        """Step all environments; the step is not valid where one resets itself."""
        return self._to_step(*self._env.step(actions))

    def _to_step(
        self,
        observations: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        info: Mapping[str, Any],
    ) -> Step:
        ended, valid = terminated | truncated, ~self._resets_next
        next_observations = observations
        if self._mode is AutoresetMode.SAME_STEP and ended.any():
            # The observations are those of the new episodes; the info has the final
            # ones, which time limits need for the value of the last state.
            next_observations = observations.copy()
            for index in np.flatnonzero(ended):
                next_observations[index] = info["final_obs"][index]
        if self._mode is AutoresetMode.NEXT_STEP:
            self._resets_next = ended
        return Step(
            observations,
            next_observations,
            rewards,
            terminated,
            truncated,
            valid,
            success_in(info),
        )

    def close(self) -> None:
        """Close all environments."""
        self._env.close()


def make_envpool(name: str, num: int, seed: int, options: Mapping[str, object]) -> Any:
    """Make a pool of environments, behind Gymnasium's interface.

    Args:
        name: Name in EnvPool, without the prefix `envpool/`.
        num: Number of environments.
        seed: Seed of all episodes: EnvPool takes no other one later.
        options: Keywords of the environments.
    """
    if is_procgen(name):
        load_qt()  # before EnvPool looks for it
    try:
        import envpool  # an extra
    except ImportError as error:
        extra = "procgen" if is_procgen(name) else "envpool"
        raise PersonaeError(
            f"{ENVPOOL}{name} needs EnvPool: pip install 'personae[{extra}]'"
        ) from error
    names = envpool.list_all_envs()
    if name not in names:
        raise nearest_match_error("environment of EnvPool", name, names)
    if name in UNSOUND:
        raise UsageError(f"{ENVPOOL}{name} cannot be learned: {UNSOUND[name]}")
    return envpool.make_gymnasium(name, num_envs=num, seed=seed, **options)


class EnvPoolEnv(Env):
    """One environment of EnvPool behind Gymnasium's interface: a pool of one.

    Example: `EnvPoolEnv("CartPole-v1", {}).reset(seed=3)`
    """

    def __init__(
        self, name: str, options: Mapping[str, object], render_mode: str | None = None
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
        self, *, seed: int | None = None, options: PlainData | None = None
    ) -> tuple[np.ndarray | np.generic, PlainData]:
        """Start an episode."""
        # EnvPool takes a seed only when a pool is made, so a new seed needs a new pool.
        if seed is not None:
            self._pool.close()
            self._pool = self._make(seed)
        return self._pool.reset()[0][0], {}

    def step(
        self, action: object
    ) -> tuple[np.ndarray | np.generic, float, bool, bool, PlainData]:
        """Advance one step."""
        observations, rewards, terminated, truncated, info = self._pool.step(
            np.asarray(action)[None]
        )
        success = success_in(info)
        own_info = {} if success is None else {"success": bool(success[0])}
        ends = bool(terminated[0]), bool(truncated[0])
        return observations[0], float(rewards[0]), *ends, own_info

    def render(self) -> np.ndarray:
        """Draw the current state."""
        frame: np.ndarray = self._pool.render()[0]
        return frame

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()
