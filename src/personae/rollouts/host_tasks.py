"""Environments on the host, made for the tasks of a curriculum."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from personae.curricula import Curriculum, Task
from personae.envs.adapters.envpool import (
    ENVPOOL,
    EnvPoolEnv,
    SelfResettingEnvs,
    make_envpool,
)
from personae.envs.adapters.gymnasium import make_env
from personae.envs.spaces import SharedSpaces, fit_spaces
from personae.envs.vector import EnvFactory, SeededEnvs
from personae.errors import require
from personae.rollouts.task_data import EvalTask
from personae.serialise import PlainData
from personae.types import Env, Space

TRAINING, EVALUATION = range(2)
"""Purposes of episodes; their seeds differ."""
VectorEnvs: TypeAlias = SeededEnvs | SelfResettingEnvs
SeedOf: TypeAlias = Callable[[int, int], int]
"""Gives the seed of an episode from its slot and its number."""


def episode_seed(*numbers: int) -> int:
    """Return the seed of an episode from the numbers that identify it."""
    state = np.random.SeedSequence(numbers).generate_state(1)[0]
    # Gymnasium takes any integer, but some environments fail on more than 31 bits.
    return int(state) & 0x7FFFFFFF


def evaluation_seed(agent_seed: int, task: EvalTask, slot: int, episode: int) -> int:
    """Return the seed of an episode of an evaluation."""
    # Appended only for variants, so that seeds of the tasks stay as they were.
    unseen = [1] if task.unseen else []
    return episode_seed(EVALUATION, agent_seed, task.task, slot, episode, *unseen)


def env_factory(
    curriculum: Curriculum, task: EvalTask, render_mode: str | None = None
) -> EnvFactory:
    """Return a function that makes one environment of a task."""
    spec = curriculum.tasks[task.task]
    options = _options(spec, task.unseen)
    extra = {} if render_mode is None else {"render_mode": render_mode}
    if spec.env.startswith(ENVPOOL):
        return lambda: EnvPoolEnv(envpool_name(spec), options, **extra)
    return partial(make_env, spec.env, options, spec.attributes, spec.wrappers, **extra)


def envpool_name(task: Task) -> str:
    """Return EnvPool's own name of a task's environment."""
    require(
        not task.attributes and not task.wrappers,
        f"task {task.name!r}: environments of EnvPool take options only, neither "
        "attributes nor wrappers",
    )
    return task.env.removeprefix(ENVPOOL)


def _options(task: Task, unseen: bool) -> PlainData:
    return {**task.options, **((task.unseen or {}) if unseen else {})}


class HostTasks:
    """Makes environments of each task of a curriculum."""

    def __init__(self, curriculum: Curriculum):
        self._curriculum = curriculum
        spaces = [self._spaces_of(index) for index in range(len(curriculum.tasks))]
        observations, actions = zip(*spaces, strict=True)
        names = [task.name for task in curriculum.tasks]
        pad = curriculum.inputs.fit == "pad"
        self.spaces: SharedSpaces = fit_spaces(observations, actions, names, pad)

    @property
    def seeded(self) -> bool:
        """Whether each episode has a seed of its own, in every task."""
        return not any(t.env.startswith(ENVPOOL) for t in self._curriculum.tasks)

    @property
    def factories(self) -> list[EnvFactory]:
        """A function for each task that makes one of its environments."""
        indices = range(len(self._curriculum.tasks))
        return [env_factory(self._curriculum, EvalTask(index)) for index in indices]

    def name(self, index: int) -> str:
        """Return the name of a task."""
        return self._curriculum.tasks[index].name

    def _spaces_of(self, index: int) -> tuple[Space, Space]:
        # Spaces are known only once an environment is made.
        env = env_factory(self._curriculum, EvalTask(index))()
        spaces = env.observation_space, env.action_space
        env.close()
        return spaces

    def make_filmed(self, index: int) -> Env:
        """Make an environment of a task that renders frames."""
        return env_factory(self._curriculum, EvalTask(index), "rgb_array")()

    def make_training_envs(self, index: int, num: int, seed_of: SeedOf) -> VectorEnvs:
        """Make environments to train in, stepped as the curriculum says."""
        stepping = self._curriculum.hosting.stepping
        return self._make_envs(EvalTask(index), num, seed_of, stepping, 0)

    def make_evaluation_envs(
        self, task: EvalTask, num: int, seed_of: SeedOf, evaluator: int
    ) -> VectorEnvs:
        """Make environments to evaluate a task in.

        They never run in processes of their own, as there would be one for each task.
        """
        return self._make_envs(task, num, seed_of, "sync", evaluator)

    def _make_envs(
        self, task: EvalTask, num: int, seed_of: SeedOf, stepping: str, number: int
    ) -> VectorEnvs:
        spec = self._curriculum.tasks[task.task]
        if not spec.env.startswith(ENVPOOL):
            factory = env_factory(self._curriculum, task)
            return SeededEnvs(factory, num, seed_of, stepping)
        # A pool has one seed for all its episodes: another one for each evaluator.
        options, seed = _options(spec, task.unseen), seed_of(0, number)
        return SelfResettingEnvs(make_envpool(envpool_name(spec), num, seed, options))
