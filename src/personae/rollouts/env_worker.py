"""One environment of one agent, which acts in it for a whole rollout."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from personae.envs.spaces import SharedSpaces
from personae.envs.third_party import call
from personae.envs.vector import EnvFactory
from personae.policy.runtime import TaskPolicy
from personae.rollouts.host_tasks import episode_seed

LONGEST_EPISODE = 1_000_000
"""Steps after which an evaluation gives up."""


class Saved(NamedTuple):
    """What brings an environment back: the episode, and what was done in it."""

    episode: int
    actions: Sequence[Any]
    observation: np.ndarray


class Part(NamedTuple):
    """What a seat saw and did in a rollout, `[time, ...]`."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    cut: Mapping[int, np.ndarray]
    """What was to be seen when a time limit cut an episode, by step."""
    brought: Sequence[tuple[float, float]]
    """Return and success of each episode that ended; not a number if untold."""
    last: np.ndarray
    """What is to be seen after the rollout."""


class Seat:
    """An environment, and what happens in its running episode."""

    def __init__(self, make: EnvFactory, fit: SharedSpaces, task: int):
        self._env = call(make)
        self._fit, self._task = fit, task

    def start(self, seeds: Sequence[int], episode: int = 0) -> None:
        """Begin the first episode, or a later one."""
        self._seeds, self._episode = seeds, episode - 1
        self._begin()

    def _begin(self) -> None:
        """Begin the next episode, from a seed of its own."""
        self._episode += 1
        self._actions: list[Any] = []
        self._collected, self._succeeded = 0.0, math.nan
        seed = episode_seed(*self._seeds, self._episode)
        shown, _ = call(self._env.reset, seed=seed)
        self._observation = self._seen(shown)

    def _seen(self, shown: Any) -> np.ndarray:
        # A copy: an environment may show the same array again.
        return self._fit.to_network(self._task, np.array(shown)[None])[0]

    def _own(self, action: np.ndarray) -> Any:
        """Turn a policy's action into the environment's."""
        return self._fit.to_env(self._task, np.asarray(action)[None])[0]

    def _do(self, action: Any) -> tuple[float, bool, bool]:
        """Act; return the reward, and whether and how the episode has ended."""
        self._actions.append(action)
        shown, reward, terminated, truncated, info = call(self._env.step, action)
        self._collected += float(reward)
        if "success" in info:
            told = float(info["success"] > 0)
            self._succeeded = np.fmax(self._succeeded, told)
        self._observation = self._seen(shown)
        return float(reward), bool(terminated), bool(truncated)

    def play(self, policy: TaskPolicy, seed: Sequence[int], length: int) -> Part:
        """Act for so many steps."""
        rng = np.random.default_rng(seed)
        seen, done, flags, rewards = [], [], [], []
        cut, brought = {}, []
        for t in range(length):
            seen.append(self._observation)
            done.append(policy.act(np.ravel(self._observation), rng))
            reward, terminated, truncated = self._do(self._own(done[-1]))
            rewards.append(reward)
            flags.append((terminated, truncated))
            if truncated and not terminated:
                cut[t] = self._observation
            if terminated or truncated:
                brought.append((self._collected, float(self._succeeded)))
                self._begin()
        terminations, truncations = np.array(flags).T
        return Part(
            np.stack(seen),
            np.stack(done),
            np.array(rewards, np.float32),
            terminations,
            truncations,
            cut,
            brought,
            self._observation,
        )

    def judge(
        self, policy: TaskPolicy, episode: Sequence[int], seed: Sequence[int] | None
    ) -> tuple[float, float] | None:
        """Play one episode; return what it brings, or None if it never ends.

        Without a seed actions are the most likely ones.
        """
        rng = None if seed is None else np.random.default_rng(seed)
        *seeds, number = episode
        self.start(seeds, number)
        for _ in range(LONGEST_EPISODE):
            action = policy.act(np.ravel(self._observation), rng)
            _, terminated, truncated = self._do(self._own(action))
            if terminated or truncated:
                return self._collected, float(self._succeeded)
        return None

    def save(self) -> Saved:
        """Return what brings this seat back."""
        return Saved(self._episode, self._actions, self._observation)

    def repeat(self, seeds: Sequence[int], saved: Saved) -> bool:
        """Bring it back; tell whether all is as it was."""
        self.start(seeds, saved.episode)
        for action in saved.actions:
            self._do(action)
        return np.array_equal(self._observation, saved.observation)

    def close(self) -> None:
        """End the environment."""
        self._env.close()
