"""Gymnasium environments that run side by side, outside JAX.

`SeededEnvs` gives each episode a seed of its own, so that an episode can be repeated
from its seed and its actions. Pools that reset themselves are in `adapters/envpool.py`.
"""

import multiprocessing
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from personae.envs.episode_stats import EpisodeStats
from personae.types import Env

EnvFactory: TypeAlias = Callable[[], Env]
"""Makes one environment."""
EnvAction: TypeAlias = np.ndarray | np.generic
"""The action of one environment: an array, or a scalar of NumPy."""


class Step(NamedTuple):
    """The answers of all environments to one action each; axis 0 is the environment."""

    observations: np.ndarray
    """Observations to act on; after the end of an episode the first of the next one."""
    next_observations: np.ndarray
    """Observations that the actions led to, even where an episode ended."""
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray
    """Whether the action was used; an environment may use the step to reset itself."""
    success: np.ndarray | None
    """Whether each has succeeded, if `info["success"]` says so; None if it does not."""


def success_in(info: Mapping[str, object]) -> np.ndarray | None:
    """Return the success of each environment; None if the info does not hold it."""
    if "success" not in info:
        return None
    success = np.asarray(info["success"], float) > 0
    # Gymnasium's vector environments fill up entries that are not in some of the infos,
    # and mark the entries that are real under the name with an underscore.
    return success & np.asarray(info.get("_success", True))


class SeededEnvs:
    """Gymnasium environments in which each episode starts from a seed of its own.

    Args:
        make: Makes one environment.
        num: Number of environments.
        seed_of: Returns the seed of an episode, from the index of the environment and
            the number of the episode in it.
        stepping: "sync" and "threads" step them one after another in this process; any
            other name gives each environment a process.
    """

    def __init__(
        self,
        make: EnvFactory,
        num: int,
        seed_of: Callable[[int, int], int],
        stepping: str,
    ):
        self._env = _vector_env([make] * num, stepping)
        self._seed_of = seed_of
        self._next_actions: np.ndarray | None = None
        self.episodes = np.zeros(num, np.int64)
        """The number of each environment's running episode."""
        self.actions: list[list[EnvAction]] = [[] for _ in range(num)]
        """The actions so far of each environment's running episode."""

    def start(self) -> np.ndarray:
        """Start the first episode of each environment; return the observations."""
        self.episodes[:] = 0
        return self._reset(np.ones(len(self.episodes), bool))

    def _reset(self, mask: np.ndarray) -> np.ndarray:
        """Start the episodes whose numbers are set, where the mask says so."""
        seeds: list[int | None] = [0] * len(mask)
        for index in np.flatnonzero(mask):
            self.actions[index] = []
            seeds[index] = self._seed_of(int(index), int(self.episodes[index]))
        observations, _ = self._env.reset(seed=seeds, options={"reset_mask": mask})
        return np.asarray(observations)

    def repeat(
        self,
        episodes: np.ndarray,
        actions: Sequence[Sequence[EnvAction]],
        stats: EpisodeStats,
    ) -> np.ndarray:
        """Bring each environment back to a point within an episode.

        Args:
            episodes: Number of each environment's episode.
            actions: The actions that lead to the point, for each environment.
            stats: Statistics that count the repeated steps.

        Returns:
            The observations at these points.
        """
        self.episodes[:] = episodes
        lengths = np.array([len(log) for log in actions])
        observations = self._reset(lengths >= 0)
        idle_actions = np.asarray(self._env.action_space.sample())
        # All environments step together. Those with fewer actions idle first, so that
        # all of them arrive at their points in the same step.
        for remaining in range(lengths.max(initial=0), 0, -1):
            is_repeating = lengths >= remaining
            rows = [
                log[len(log) - remaining] if repeats else idle
                for log, repeats, idle in zip(
                    actions, is_repeating, idle_actions, strict=True
                )
            ]
            observations, rewards, terminated, truncated, info = self._env.step(
                np.stack(rows)
            )
            stats.count(rewards, success_in(info), is_repeating)
            # An idle environment starts its episode again when idling has ended it,
            # and right before its own actions are due.
            is_next = lengths == remaining - 1
            restarts = (terminated | truncated | is_next) & ~is_repeating
            if restarts.any():
                observations = self._reset(restarts)
        self.actions = [list(log) for log in actions]
        return observations

    def send(self, actions: np.ndarray) -> None:
        """Set the actions of the step that `receive` makes."""
        self._next_actions = actions

    def receive(self) -> Step:
        """Make the step whose actions were sent."""
        assert self._next_actions is not None
        return self.step(self._next_actions)

    def step(self, actions: np.ndarray) -> Step:
        """Step all environments, and start the next episode where one has ended."""
        for log, action in zip(self.actions, actions, strict=True):
            log.append(action)
        observations, rewards, terminated, truncated, info = self._env.step(actions)
        next_observations, ended = observations, terminated | truncated
        if ended.any():
            # A copy: the reset may write into the array that the step returned.
            next_observations = observations.copy()
            self.episodes += ended
            observations = self._reset(ended)
        return Step(
            observations,
            next_observations,
            rewards,
            terminated,
            truncated,
            valid=np.ones_like(ended),
            success=success_in(info),
        )

    def close(self) -> None:
        """Close all environments."""
        self._env.close()


def _vector_env(
    makes: Sequence[EnvFactory], stepping: str
) -> SyncVectorEnv | AsyncVectorEnv:
    # Gymnasium's own resets would not take the seed of the next episode.
    mode = AutoresetMode.DISABLED
    if stepping in ("sync", "threads"):
        return SyncVectorEnv(makes, autoreset_mode=mode)
    # A forked process would inherit locks that threads of JAX hold.
    return AsyncVectorEnv(
        [partial(_make_in_process, make) for make in makes],
        autoreset_mode=mode,
        context="spawn",
    )


def _make_in_process(make: EnvFactory) -> Env:
    """Make an environment in a process that ignores Ctrl-C; the main one handles it."""
    # The main process makes one environment as well, to read its spaces.
    if multiprocessing.parent_process() is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return make()
