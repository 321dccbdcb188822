"""One environment of one agent, which is acted in for a whole rollout at a time."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from personae.envs.spaces import SharedSpaces
from personae.envs.third_party import call
from personae.envs.vector import EnvFactory
from personae.policy.runtime import TaskPolicy
from personae.rollouts.evaluation import LONGEST_EPISODE
from personae.rollouts.host_tasks import episode_seed


class EpisodeSnapshot(NamedTuple):
    """A running episode: its number, its actions so far and its last observation."""

    episode: int
    actions: Sequence[Any]
    observation: np.ndarray


class WorkerRollout(NamedTuple):
    """A rollout in one environment, `[time, ...]`."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    cut: Mapping[int, np.ndarray]
    """The last observations of episodes that a time limit cut off, by step."""
    measures: Sequence[tuple[float, float]]
    """Return and success of each episode that ended; nan if success is not reported."""
    last: np.ndarray
    """The observation after the rollout."""


class EnvWorker:
    """An environment and its running episode."""

    def __init__(self, factory: EnvFactory, spaces: SharedSpaces, task: int):
        # Errors of third-party code reach the user with their traceback as text.
        self._env = call(factory)
        self._spaces, self._task = spaces, task
        self._seeds: Sequence[int] = ()
        self._episode = -1
        self._actions: list[Any] = []
        self._return, self._success = 0.0, math.nan
        self._observation = np.zeros(0)

    def start(self, seeds: Sequence[int], episode: int = 0) -> None:
        """Begin the first episode, or a later one."""
        self._seeds, self._episode = seeds, episode - 1
        self._begin_episode()

    def _begin_episode(self) -> None:
        """Begin the next episode, from a seed of its own."""
        self._episode += 1
        self._actions = []
        self._return, self._success = 0.0, math.nan
        seed = episode_seed(*self._seeds, self._episode)
        observation, _ = call(self._env.reset, seed=seed)
        self._observation = self._to_network(observation)

    def _to_network(self, observation: Any) -> np.ndarray:
        # A copy: an environment may return the same array again.
        return self._spaces.to_network(self._task, np.array(observation)[None])[0]

    def _to_env(self, action: np.ndarray) -> Any:
        return self._spaces.to_env(self._task, np.asarray(action)[None])[0]

    def _step(self, action: Any) -> tuple[float, bool, bool]:
        """Act; return the reward, `terminated` and `truncated`."""
        self._actions.append(action)
        observation, reward, terminated, truncated, info = call(self._env.step, action)
        self._return += float(reward)
        if "success" in info:
            success = float(info["success"] > 0)
            # fmax ignores nan, which stands for "not reported yet".
            self._success = np.fmax(self._success, success)
        self._observation = self._to_network(observation)
        return float(reward), bool(terminated), bool(truncated)

    @property
    def _measures(self) -> tuple[float, float]:
        return self._return, float(self._success)

    def collect(
        self, policy: TaskPolicy, seed: Sequence[int], length: int
    ) -> WorkerRollout:
        """Act for so many steps; the seed is that of the actions."""
        rng = np.random.default_rng(seed)
        observations, actions, flags, rewards = [], [], [], []
        cut, measures = {}, []
        for time in range(length):
            observations.append(self._observation)
            actions.append(policy.act(np.ravel(self._observation), rng))
            reward, terminated, truncated = self._step(self._to_env(actions[-1]))
            rewards.append(reward)
            flags.append((terminated, truncated))
            # Only a time limit leaves a value behind; a real end is worth nothing more.
            if truncated and not terminated:
                cut[time] = self._observation
            if terminated or truncated:
                measures.append(self._measures)
                self._begin_episode()
        terminations, truncations = np.array(flags).T
        return WorkerRollout(
            np.stack(observations),
            np.stack(actions),
            np.array(rewards, np.float32),
            terminations,
            truncations,
            cut,
            measures,
            self._observation,
        )

    def evaluate(
        self, policy: TaskPolicy, seeds: Sequence[int], seed: Sequence[int] | None
    ) -> tuple[float, float] | None:
        """Play one episode; return its measures, or None if it never ends.

        Args:
            policy: Chooses the actions.
            seeds: The numbers that identify the episode, its own number last.
            seed: Seed of the actions; without one they are the most likely ones.
        """
        rng = None if seed is None else np.random.default_rng(seed)
        *prefix, episode = seeds
        self.start(prefix, episode)
        for _ in range(LONGEST_EPISODE):
            action = policy.act(np.ravel(self._observation), rng)
            _, terminated, truncated = self._step(self._to_env(action))
            if terminated or truncated:
                return self._measures
        return None

    def save(self) -> EpisodeSnapshot:
        """Return the running episode."""
        return EpisodeSnapshot(self._episode, self._actions, self._observation)

    def repeat(self, seeds: Sequence[int], snapshot: EpisodeSnapshot) -> bool:
        """Bring an episode back; return whether its observation is the same again."""
        self.start(seeds, snapshot.episode)
        # Environments cannot be saved, but one with a seed repeats what it did.
        for action in snapshot.actions:
            self._step(action)
        return np.array_equal(self._observation, snapshot.observation)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
