"""The tasks of a curriculum in environments outside JAX: how they are made."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from personae.curricula import Curriculum, Task
from personae.envs.adapters.envpool import EnvPoolEnv
from personae.envs.spaces import SharedSpaces, fit_spaces
from personae.envs.vector import (
    ENVPOOL,
    Make,
    SeededEnvs,
    SelfResettingEnvs,
    make_env,
    make_envpool,
)
from personae.errors import require

TRAINING, EVALUATION = range(2)
"""What episodes are played for; their seeds differ."""


class Exam(NamedTuple):
    """What agents are judged on."""

    task: int
    unseen: bool = False
    """Whether on what was never trained on (`Task.unseen`)."""


def episode_seed(*numbers: int) -> int:
    """Return the seed of an episode, from what tells it apart from all others."""
    state = np.random.SeedSequence(numbers).generate_state(1)[0]
    return int(state) & 0x7FFFFFFF


def task_env(
    curriculum: Curriculum, index: int, unseen: bool = False, **more: Any
) -> Make:
    """Return what makes one environment of a task."""
    task = curriculum.tasks[index]
    options, attributes = _options(task, unseen), task.attributes
    if task.env.startswith(ENVPOOL):
        return lambda: EnvPoolEnv(pool_name(task), options, **more)
    return partial(make_env, task.env, options, attributes, task.wrappers, **more)


def pool_name(task: Task) -> str:
    """Return the name that EnvPool has for a task's environment."""
    require(
        not task.attributes and not task.wrappers,
        f"task {task.name!r}: environments of EnvPool take options only, neither "
        "attributes nor wrappers",
    )
    return task.env.removeprefix(ENVPOOL)


class HostTasks:
    """Makes environments of each task of a curriculum."""

    def __init__(self, curriculum: Curriculum):
        self._curriculum = curriculum
        spaces = [self._spaces(index) for index in range(len(curriculum.tasks))]
        observations, actions = zip(*spaces, strict=True)
        names = [task.name for task in curriculum.tasks]
        pad = curriculum.inputs.fit == "pad"
        self.fit: SharedSpaces = fit_spaces(observations, actions, names, pad)

    @property
    def seeded(self) -> bool:
        """Whether each episode has a seed of its own, in every task."""
        return not any(t.env.startswith(ENVPOOL) for t in self._curriculum.tasks)

    @property
    def exams(self) -> list[Exam]:
        """All tasks as they are trained, then what was never trained on, if any."""
        tasks = self._curriculum.tasks
        unseen = [i for i, task in enumerate(tasks) if task.unseen is not None]
        return [*map(Exam, range(len(tasks))), *(Exam(i, True) for i in unseen)]

    @property
    def makes(self) -> list[Make]:
        """What makes one environment of each task."""
        numbers = range(len(self._curriculum.tasks))
        return [task_env(self._curriculum, index) for index in numbers]

    def name(self, index: int) -> str:
        """Return the name of a task."""
        return self._curriculum.tasks[index].name

    def _spaces(self, index: int) -> tuple[Any, Any]:
        env = task_env(self._curriculum, index)()
        found = env.observation_space, env.action_space
        env.close()
        return found

    def _pool(self, index: int, num: int, seed: int, unseen: bool = False) -> Any:
        task = self._curriculum.tasks[index]
        return make_envpool(pool_name(task), num, seed, _options(task, unseen))

    def make_filmed(self, index: int) -> gym.Env[Any, Any]:
        """Make an environment of a task that can be looked at."""
        return task_env(self._curriculum, index, render_mode="rgb_array")()

    def make_worlds(
        self,
        index: int,
        num: int,
        seed_of: Callable[[int, int], int],
        stepping: str | None = None,
        unseen: bool = False,
        number: int = 0,
    ) -> SeededEnvs | SelfResettingEnvs:
        """Make environments of a task, whose episodes have the seeds given.

        What starts episodes by itself has but one seed, another one for each number.
        """
        task = self._curriculum.tasks[index]
        if task.env.startswith(ENVPOOL):
            return SelfResettingEnvs(self._pool(index, num, seed_of(0, number), unseen))
        stepping = stepping or self._curriculum.hosting.stepping
        make = task_env(self._curriculum, index, unseen)
        return SeededEnvs(make, num, seed_of, stepping)


def _options(task: Task, unseen: bool) -> dict[str, Any]:
    return {**task.options, **((task.unseen or {}) if unseen else {})}
