"""Environments of EnvPool: side by side, or one as a Gymnasium environment."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from personae.envs.adapters.procgen import is_procgen, load_qt
from personae.envs.vector import Step, success_in
from personae.errors import PersonaeError, UsageError, nearest_match_error

ENVPOOL = "envpool/"
RUNAWAY = (
    "from reset to reset its goal runs away (seen in EnvPool 1.2.5); "
    "personae/MetaWorld-v0 has the task, too"
)
UNSOUND = {"MetaWorld/Hammer-v3": RUNAWAY, "MetaWorld/ShelfPlace-v3": RUNAWAY}
"""Environments of EnvPool that are not what they should be."""


class SelfResettingEnvs:
    """A vector environment of EnvPool, which starts episodes anew by itself."""

    def __init__(self, env: Any, seed: int | None = None):
        self._env, self._seed = env, seed
        self._mode = AutoresetMode(env.metadata.get("autoreset_mode", "NextStep"))
        self._starting = np.zeros(env.num_envs, bool)

    def start(self) -> np.ndarray:
        """Begin an episode in each; return what they show."""
        self._starting[:] = False
        return np.asarray(self._env.reset(seed=self._seed)[0])

    def send(self, actions: np.ndarray) -> None:
        """Act in each, without waiting for the answers."""
        self._env.send(actions)

    def receive(self) -> Step:
        """Return what each answers; not valid where one starts anew instead."""
        return self._answer(*self._env.recv())

    def step(self, actions: np.ndarray) -> Step:
        """Act in each; where one starts anew instead, the step is not valid."""
        return self._answer(*self._env.step(actions))

    def _answer(
        self,
        shown: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        info: Mapping[str, Any],
    ) -> Step:
        ended, valid = terminated | truncated, ~self._starting
        last = shown
        if self._mode is AutoresetMode.SAME_STEP and ended.any():
            last = shown.copy()
            for index in np.flatnonzero(ended):
                last[index] = info["final_obs"][index]
        if self._mode is AutoresetMode.NEXT_STEP:
            self._starting = ended
        success = success_in(info)
        return Step(shown, last, rewards, terminated, truncated, valid, success)

    def close(self) -> None:
        """End them."""
        self._env.close()


def make_envpool(name: str, num: int, seed: int, options: Mapping[str, Any]) -> Any:
    """Make environments of EnvPool, which is an extra."""
    if is_procgen(name):
        load_qt()  # before EnvPool looks for it
    try:
        import envpool
    except ImportError as error:
        extra = "procgen" if is_procgen(name) else "envpool"
        raise PersonaeError(
            f"{ENVPOOL}{name} needs EnvPool: pip install 'personae[{extra}]'"
        ) from error
    known = envpool.list_all_envs()
    if name not in known:
        raise nearest_match_error("environment of EnvPool", name, known)
    if name in UNSOUND:
        raise UsageError(f"{ENVPOOL}{name} cannot be learned: {UNSOUND[name]}")
    return envpool.make_gymnasium(name, num_envs=num, seed=seed, **options)


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
