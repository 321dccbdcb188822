"""The environments that agents learn in, and acting in them for a rollout."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from personae.envs.episode_stats import MEASURES, EpisodeStats, mean_of_finished
from personae.envs.vector import SeededEnvs, Step
from personae.rollouts.host_tasks import TRAINING, episode_seed
from personae.types import Rollout, Transition, shown

if TYPE_CHECKING:
    from personae.rollouts.vector_actors import Players
    from personae.training.host_trainer import BehaviourPolicy


class Recorded(NamedTuple):
    """What agents saw and did: at one step, or at all steps of a tape."""

    observation: Any
    action: Any
    log_prob: Any
    value: Any


class Tape(NamedTuple):
    """A rollout while it is played.

    It lies where networks are computed, so that what they see is carried there once.
    """

    steps: Recorded
    """`[agent, time, env, ...]`."""
    time: Any
    """Up to which it is recorded."""


class Collected(NamedTuple):
    """What a rollout brings, with the agents in front."""

    rollout: Rollout
    cut: np.ndarray
    """The discounted value of what time limits cut off at each step."""
    brought: np.ndarray
    """The mean of the episodes that ended, `[agent, measure]`; not a number where none
    did."""
    lag: int | None = None
    """How many rollouts have been learned from since the policy that acted was new;
    None where nothing is out of date."""

    @property
    def to_learn(self) -> tuple[Rollout, np.ndarray, np.ndarray]:
        """What an update needs."""
        return self.rollout, self.cut, self.brought


class Stage:
    """Environments of all agents in one visit; slot i belongs to agent i // slots."""

    def __init__(self, players: "Players", visit: int, number: int = 0):
        self._players, programs = players, players.programs
        learner = programs.setting.learner
        self._num_envs, self._length = learner.num_envs, learner.rollout_length
        self._task, self._index = programs.task(visit), programs.task_of(visit)
        seeds = players.seeds

        def seed_of(slot: int, episode: int) -> int:
            agent, env = divmod(slot, self._num_envs)
            place = number * self._num_envs + env
            return episode_seed(TRAINING, seeds[agent], visit, place, episode)

        num = len(seeds) * self._num_envs
        self._worlds = programs.tasks.make_worlds(self._index, num, seed_of)
        self._seeded = programs.tasks.seeded
        self._recall = players.make_recall(self._num_envs)
        self._tally = EpisodeStats(num)
        self._observations: Any = None

    def start(self) -> None:
        """Begin the first episodes."""
        self._observations = self._seen(self._worlds.start())

    def _seen(self, shown: np.ndarray) -> Any:
        return self._players.seen(self._index, shown, self._recall)

    def collect(self, acting: "BehaviourPolicy") -> Collected:
        """Act for one rollout."""
        tape, answers = self._players.blank_tape(), []
        record = self._players.records(acting, self._task)
        for _ in range(self._length):
            tape, action = record(tape, self._observations)
            step = self._step(np.asarray(action))
            cut = self._cut(acting, step)
            if self._recall is not None:
                self._recall.forget(step.terminated | step.truncated | ~step.valid)
            self._observations = self._seen(step.observations)
            answers.append(self._answer(step, cut))
        reward, done, valid, cuts, brought = zip(*answers, strict=True)
        agents = len(self._players.seeds)
        ended = np.stack(brought, -1).reshape(len(MEASURES), agents, -1)
        numbers: Any = (np.stack(reward, 1), np.stack(done, 1))
        if not self._seeded:
            numbers += (np.stack(valid, 1),)
        # A copy: an environment may show the same array again.
        last = jax.tree.map(np.copy, self._observations)
        rollout = Rollout(Transition(*tape.steps, *numbers), last)
        means = mean_of_finished(ended).T.astype(np.float32)
        return Collected(rollout, np.stack(cuts, 1), means)

    def _answer(self, step: Step, cut: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return what is kept of a step; copies, as it may lie in a buffer."""
        by_agent = self._players.by_agent
        reward = by_agent(step.rewards.astype(np.float32))
        done = by_agent(step.terminated | step.truncated)
        valid = by_agent(step.valid.copy())
        return reward, done, valid, cut, end_episodes(self._tally, step)

    def _step(self, action: np.ndarray) -> Step:
        flat = action.reshape(-1, *action.shape[2:])
        fit = self._players.programs.tasks.fit
        step = self._worlds.step(fit.to_env(self._index, flat))
        if self._recall is not None:
            self._recall.note(flat, step.rewards)
        return step

    def _cut(self, acting: "BehaviourPolicy", step: Step) -> np.ndarray:
        """Return the discounted value of what a time limit cuts off."""
        learner = self._players.programs.setting.learner
        lost = self._players.by_agent(step.truncated & ~step.terminated)
        if not (learner.bootstrap_truncated and lost.any()):
            return np.zeros(lost.shape, np.float32)
        last = self._seen(step.next_observations)
        after = np.asarray(self._players.value(acting, self._task, last))
        return np.where(lost, learner.discount * after, 0).astype(np.float32)

    def save(self) -> Mapping[str, np.ndarray] | None:
        """Return what brings the environments back: episodes, and actions in them."""
        if not isinstance(self._worlds, SeededEnvs):
            return None
        episodes = self._worlds.episodes.copy()
        seen = np.asarray(shown(self._observations))
        packed = pack(episodes, self._worlds.actions, seen)
        return packed | (self._recall.save() if self._recall else {})

    def repeat(self, saved: Mapping[str, np.ndarray]) -> None:
        """Bring environments back to where they were."""
        assert isinstance(self._worlds, SeededEnvs)
        if self._recall is not None:
            self._recall.restore(saved)
        logs = unpack_actions(saved)
        shown_now = self._worlds.repeat(saved["episodes"], logs, self._tally)
        self._observations = self._seen(shown_now)
        if not np.array_equal(shown(self._observations), saved["observations"]):
            say_not_repeated()

    def close(self) -> None:
        """End the environments."""
        self._worlds.close()


def end_episodes(tally: EpisodeStats, step: Step) -> np.ndarray:
    """Count a step; return what episodes brought where they ended, else nan."""
    tally.count(step.rewards, step.success, step.valid)
    return tally.end(step.terminated | step.truncated)


def pack(
    episodes: np.ndarray, actions: Sequence[Sequence[Any]], observations: np.ndarray
) -> dict[str, np.ndarray]:
    """Return what brings environments back, as arrays."""
    done = [action for log in actions for action in log]
    return {
        "episodes": episodes,
        "lengths": np.array([len(log) for log in actions]),
        "actions": np.stack(done) if done else np.zeros(0),
        "observations": observations,
    }


def unpack_actions(saved: Mapping[str, np.ndarray]) -> list[list[Any]]:
    """Return what was done in each environment's episode."""
    ends = np.cumsum(saved["lengths"])[:-1]
    return [list(log) for log in np.split(saved["actions"], ends)]


def say_not_repeated() -> None:
    """Warn of environments that cannot be brought back."""
    print(
        "environments are not where they were, though they did the same: they do not "
        "repeat themselves, and the run is not that of an uninterrupted one from here "
        "on",
        file=sys.stderr,
    )
