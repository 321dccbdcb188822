"""Gymnasium environments that run side by side, outside JAX.

`SeededEnvs` gives each episode a seed of its own, so that an episode can be repeated
from its seed and its actions. Pools that reset themselves are in `adapters/envpool.py`.
"""

import multiprocessing
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from personae.envs.episode_stats import EpisodeStats

EnvFactory = Callable[[], gym.Env[Any, Any]]


class Step(NamedTuple):
    """What all environments answer to one action each."""

    observations: np.ndarray
    """What each shows now; after the end of an episode the start of the next."""
    next_observations: np.ndarray
    """The same, but after the end of an episode what it ended with."""
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray
    """Where not, the action was ignored, as the environment was starting anew."""
    success: np.ndarray | None
    """Whether each has succeeded, if environments tell: `info["success"]`."""


def success_in(info: Mapping[str, Any]) -> np.ndarray | None:
    """Return which environments have succeeded, if they tell."""
    if "success" not in info:
        return None
    success = np.asarray(info["success"], float) > 0
    return success & np.asarray(info.get("_success", True))


class SeededEnvs:
    """Gymnasium environments in which each episode starts from a seed of its own."""

    def __init__(
        self,
        make: EnvFactory,
        num: int,
        seed_of: Callable[[int, int], int],
        stepping: str,
    ):
        self._env = _vector_env([make] * num, stepping)
        self._seed_of = seed_of
        self.episodes = np.zeros(num, np.int64)
        """The number of the running episode of each."""
        self.actions: list[list[Any]] = [[] for _ in range(num)]
        """What was done in it so far."""

    def start(self) -> np.ndarray:
        """Begin the first episode in each; return what they show."""
        self.episodes[:] = 0
        return self._begin(np.ones(len(self.episodes), bool))

    def _begin(self, which: np.ndarray) -> np.ndarray:
        seeds = [0] * len(which)
        for index in np.flatnonzero(which):
            self.actions[index] = []
            seeds[index] = self._seed_of(int(index), int(self.episodes[index]))
        reset: Any = self._env.reset  # whose type knows of one seed only
        observations, _ = reset(seed=seeds, options={"reset_mask": which})
        return np.asarray(observations)

    def repeat(
        self,
        episodes: np.ndarray,
        actions: Sequence[Sequence[Any]],
        tally: EpisodeStats,
    ) -> np.ndarray:
        """Bring each to where it was: an episode, and the actions done in it so far.

        All are stepped together, so those with fewer actions begin later; until then
        whatever they do does not count. Return what they show.
        """
        self.episodes[:] = episodes
        lengths = np.array([len(done) for done in actions])
        observations = self._begin(lengths >= 0)
        idle = np.asarray(self._env.action_space.sample())
        for left in range(lengths.max(initial=0), 0, -1):
            begun = lengths >= left
            rows = [
                done[len(done) - left] if now else rest
                for done, now, rest in zip(actions, begun, idle, strict=True)
            ]
            observations, rewards, terminated, truncated, info = self._env.step(
                np.stack(rows)
            )
            tally.count(rewards, success_in(info), begun)
            again = (terminated | truncated | (lengths == left - 1)) & ~begun
            if again.any():
                observations = self._begin(again)
        self.actions = [list(done) for done in actions]
        return observations

    def send(self, actions: np.ndarray) -> None:
        """Act in each, when the answers are asked for."""
        self._sent = actions

    def receive(self) -> Step:
        """Return what each answers."""
        return self.step(self._sent)

    def step(self, actions: np.ndarray) -> Step:
        """Act in each, and start the next episode where one has ended."""
        for log, action in zip(self.actions, actions, strict=True):
            log.append(action)
        last, rewards, terminated, truncated, info = self._env.step(actions)
        ended = terminated | truncated
        observations = last
        if ended.any():
            last = last.copy()
            self.episodes += ended
            observations = self._begin(ended)
        return Step(
            observations,
            last,
            rewards,
            terminated,
            truncated,
            valid=np.ones_like(ended),
            success=success_in(info),
        )

    def close(self) -> None:
        """End them."""
        self._env.close()


def _vector_env(makes: Sequence[EnvFactory], stepping: str) -> VectorEnv[Any, Any, Any]:
    mode = AutoresetMode.DISABLED
    if stepping in ("sync", "threads"):
        return SyncVectorEnv(makes, autoreset_mode=mode)
    # A forked process would inherit locks that threads of JAX hold.
    return AsyncVectorEnv(
        [partial(_make_in_process, make) for make in makes],
        autoreset_mode=mode,
        context="spawn",
    )


def _make_in_process(make: EnvFactory) -> gym.Env[Any, Any]:
    """Make an environment in a process of its own, which Ctrl-C is no business of."""
    if multiprocessing.parent_process() is not None:  # one is made here, to look at it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return make()
