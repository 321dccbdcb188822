"""Collecting a rollout by stepping all agents' environments together."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from personae.envs.episode_stats import MEASURES, EpisodeStats, mean_of_finished
from personae.envs.vector import SeededEnvs, Step
from personae.rollouts.contract import BehaviourPolicy, CollectedRollout, EnvSnapshot
from personae.rollouts.host_context import HostContext, HostObservation
from personae.rollouts.host_tasks import TRAINING, episode_seed
from personae.rollouts.policies import HostPolicies
from personae.types import Rollout, Transition, current_observation


class EnvAnswer(NamedTuple):
    """The part of a step that the environments decide, `[agent, env]`."""

    reward: Float[np.ndarray, "agents envs"]
    done: Bool[np.ndarray, "agents envs"]
    valid: Bool[np.ndarray, "agents envs"]
    bootstrap: Float[np.ndarray, "agents envs"]
    measures: Float[np.ndarray, "measures slots"]


class RolloutCollector:
    """The environments of one visit; slot i belongs to agent i // num_envs."""

    def __init__(
        self, context: HostContext, policies: HostPolicies, visit: int, actor: int = 0
    ):
        """Make the environments; `actor` tells several collectors of a visit apart."""
        self._context, self._policies = context, policies
        self._index = context.table.index_of_visit(visit)
        self._task = context.table.of_visit(visit)
        num_envs, seeds = context.num_envs, context.seeds

        def seed_of(slot: int, episode: int) -> int:
            agent, env = divmod(slot, num_envs)
            # Collectors of one visit share agents, so their slots are numbered on.
            env += actor * num_envs
            return episode_seed(TRAINING, seeds[agent], visit, env, episode)

        slots = context.num_agents * num_envs
        self._envs = context.tasks.make_training_envs(self._index, slots, seed_of)
        self._previous = context.previous_steps(num_envs)
        self._stats = EpisodeStats(slots)
        self._observations: HostObservation = None

    def start(self) -> None:
        """Begin the first episodes."""
        self._observations = self._observe(self._envs.start())

    def _observe(self, observations: np.ndarray) -> HostObservation:
        return self._context.observe(self._index, observations, self._previous)

    def collect(self, policy: BehaviourPolicy) -> CollectedRollout:
        """Act for one rollout."""
        buffer, answers = self._policies.blank_buffer(), list[EnvAnswer]()
        record = self._policies.record(policy, self._task)
        for _ in range(self._context.rollout_length):
            buffer, action = record(buffer, self._observations)
            step = self._step(np.asarray(action))
            # Before the reset of previous steps: a state that was cut off has its own.
            bootstrap = self._bootstrap(policy, step)
            if self._previous is not None:
                self._previous.reset(step.terminated | step.truncated | ~step.valid)
            self._observations = self._observe(step.observations)
            answers.append(self._answer(step, bootstrap))
        reward, done, valid, bootstraps, measures = zip(*answers, strict=True)
        flags: Any = (np.stack(reward, 1), np.stack(done, 1))
        if not self._context.tasks.seeded:
            flags += (np.stack(valid, 1),)
        # A copy: an environment may return the same array again.
        last = jax.tree.map(np.copy, self._observations)
        rollout = Rollout(Transition(*buffer.steps, *flags), last)
        # Measures are kept per step, as an episode may end at any step of the rollout.
        ended = np.stack(measures, -1)
        ended = ended.reshape(len(MEASURES), self._context.num_agents, -1)
        means = mean_of_finished(ended).T.astype(np.float32)
        return CollectedRollout(rollout, np.stack(bootstraps, 1), means)

    def _answer(self, step: Step, bootstrap: np.ndarray) -> EnvAnswer:
        # Copies, as environments may write the next step into the same arrays.
        by_agent = self._context.by_agent
        return EnvAnswer(
            by_agent(step.rewards.astype(np.float32)),
            by_agent(step.terminated | step.truncated),
            by_agent(step.valid.copy()),
            bootstrap,
            end_episodes(self._stats, step),
        )

    def _step(self, action: np.ndarray) -> Step:
        flat = action.reshape(-1, *action.shape[2:])
        step = self._envs.step(self._context.tasks.spaces.to_env(self._index, flat))
        if self._previous is not None:
            self._previous.record(flat, step.rewards)
        return step

    def _bootstrap(self, policy: BehaviourPolicy, step: Step) -> np.ndarray:
        """Return the discounted values of states that a time limit cuts off."""
        context = self._context
        cut = context.by_agent(step.truncated & ~step.terminated)
        if not (context.bootstrap_truncated and cut.any()):
            return np.zeros(cut.shape, np.float32)
        # The observation that ended the episode, not the one that the next begins with.
        last = self._observe(step.next_observations)
        values = np.asarray(self._policies.value(policy, self._task, last))
        return np.where(cut, context.discount * values, 0).astype(np.float32)

    def save(self) -> EnvSnapshot | None:
        """Return the running episodes and the actions in them, if they can repeat."""
        # Pools reset themselves from one seed and cannot repeat an episode.
        if not isinstance(self._envs, SeededEnvs):
            return None
        episodes = self._envs.episodes.copy()
        observations = np.asarray(current_observation(self._observations))
        packed = pack_episodes(episodes, self._envs.actions, observations)
        return packed | (self._previous.save() if self._previous else {})

    def repeat(self, snapshot: EnvSnapshot) -> None:
        """Bring environments back to where `save` was called."""
        assert isinstance(self._envs, SeededEnvs)
        if self._previous is not None:
            self._previous.restore(snapshot)
        actions = unpack_actions(snapshot)
        observations = self._envs.repeat(snapshot["episodes"], actions, self._stats)
        self._observations = self._observe(observations)
        current = current_observation(self._observations)
        if not np.array_equal(current, snapshot["observations"]):
            warn_of_drift()

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()


def end_episodes(stats: EpisodeStats, step: Step) -> np.ndarray:
    """Count a step; return the measures of episodes that ended, elsewhere nan."""
    stats.count(step.rewards, step.success, step.valid)
    return stats.end(step.terminated | step.truncated)


def pack_episodes(
    episodes: np.ndarray, actions: Sequence[Sequence[Any]], observations: np.ndarray
) -> dict[str, np.ndarray]:
    """Return running episodes as arrays: number, actions so far, last observation."""
    flat = [action for log in actions for action in log]
    return {
        "episodes": episodes,
        "lengths": np.array([len(log) for log in actions]),
        "actions": np.stack(flat) if flat else np.zeros(0),
        "observations": observations,
    }


def unpack_actions(snapshot: Mapping[str, np.ndarray]) -> list[list[Any]]:
    """Return the actions of each environment's running episode."""
    ends = np.cumsum(snapshot["lengths"])[:-1]
    return [list(log) for log in np.split(snapshot["actions"], ends)]


def warn_of_drift() -> None:
    """Warn that environments do not repeat themselves."""
    print(
        "environments answered the same actions differently than before: they do not "
        "repeat themselves, so from here on this run is not that of an uninterrupted "
        "one",
        file=sys.stderr,
    )
