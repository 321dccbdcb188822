"""The context that actors and evaluators on the host are handed."""

from dataclasses import dataclass
from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import PyTree

from personae.curricula import Curriculum, Hosting
from personae.rollouts.host_tasks import HostTasks
from personae.rollouts.pipeline import Pipeline, make_pipeline
from personae.rollouts.previous_step import PreviousSteps
from personae.rollouts.task_data import EvalTask, TaskTable, eval_tasks
from personae.types import Space

HostObservation: TypeAlias = PyTree
"""Observations in NumPy, or in JAX once compiled functions have them."""


@dataclass(frozen=True)
class HostContext:
    """Everything that acting on the host depends on; it never changes."""

    tasks: HostTasks
    """Makes the environments."""
    # Acting needs no method and no learner: a worker on another node can build this
    # from the curriculum alone.
    table: TaskTable
    pipeline: Pipeline
    hosting: Hosting
    seeds: tuple[int, ...]
    """One for each agent."""
    num_envs: int
    """Environments of each agent."""
    rollout_length: int
    discount: float
    bootstrap_truncated: bool
    eval_tasks: tuple[EvalTask, ...]
    # Sizes the pool of processes, which is started before the first evaluation.
    eval_episodes: int
    """Episodes of each task in the run's own evaluations."""

    @property
    def num_agents(self) -> int:
        """Number of agents."""
        return len(self.seeds)

    @property
    def action_space(self) -> Space:
        """The space of the policy's actions."""
        return self.tasks.spaces.action_space

    def task_name(self, visit: int) -> str:
        """Return the name of the task of a visit."""
        return self.tasks.name(self.table.index_of_visit(visit))

    def previous_steps(self, slots: int) -> PreviousSteps | None:
        """Return a memory of previous steps, if networks see them."""
        space = self.pipeline.encoder.previous_action_space
        return None if space is None else PreviousSteps(space, self.num_agents * slots)

    def by_agent(self, flat: np.ndarray) -> np.ndarray:
        """Split an axis of all agents' slots, `[agent, slot, ...]`."""
        return flat.reshape(self.num_agents, -1, *flat.shape[1:])

    def observe(
        self, index: int, observations: np.ndarray, previous: PreviousSteps | None
    ) -> HostObservation:
        """Return a task's observations as networks take them, `[agent, slot, ...]`."""
        shared: HostObservation = self.tasks.spaces.to_network(index, observations)
        if previous is not None:
            shared = previous.attach(shared)
        return jax.tree.map(self.by_agent, shared)


def make_host_context(curriculum: Curriculum, seeds: tuple[int, ...]) -> HostContext:
    """Return the context of a curriculum whose environments run on the host."""
    tasks, learner = HostTasks(curriculum), curriculum.chosen_learner
    return HostContext(
        tasks=tasks,
        table=TaskTable(curriculum, None, tasks.spaces.num_actions),
        pipeline=make_pipeline(curriculum, tasks.spaces.action_space),
        hosting=curriculum.hosting,
        seeds=seeds,
        num_envs=learner.num_envs,
        rollout_length=learner.rollout_length,
        discount=learner.discount,
        bootstrap_truncated=learner.bootstrap_truncated,
        eval_tasks=tuple(eval_tasks(curriculum)),
        eval_episodes=curriculum.evaluation.episodes,
    )
