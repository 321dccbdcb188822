"""Evaluation on the host: all agents play all tasks at the same time."""

from collections.abc import Callable, Sequence
from queue import LifoQueue
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from personae.curricula import Evaluation
from personae.envs.episode_stats import MEASURES, EpisodeStats
from personae.rollouts.contract import PolicyOfTask
from personae.rollouts.evaluation import LONGEST_EPISODE, endless_episode
from personae.rollouts.host_context import HostContext, HostObservation
from personae.rollouts.host_tasks import VectorEnvs, evaluation_seed
from personae.rollouts.policies import HostPolicies, stack_trees
from personae.rollouts.task_data import EvalTask
from personae.types import Action

ActOn = Callable[[Sequence[EvalTask]], Callable[[HostObservation, int], Action]]
"""Builds `act(observations, time)` for several tasks at once."""


class EvaluationEnvs:
    """Environments of all tasks, made once; one evaluation at a time is in them."""

    def __init__(self, context: HostContext, number: int):
        self._context, self._number = context, number
        self._envs: dict[EvalTask, VectorEnvs] = {}

    def of(self, task: EvalTask, slots: int) -> VectorEnvs:
        """Return the environments of a task, so many for each agent."""
        seeds = self._context.seeds

        def seed_of(slot: int, episode: int) -> int:
            agent, position = divmod(slot, slots)
            return evaluation_seed(seeds[agent], task, position, episode)

        # Made once, and used again by all evaluations of the run.
        if task not in self._envs:
            self._envs[task] = self._context.tasks.make_evaluation_envs(
                task, len(seeds) * slots, seed_of, self._number
            )
        return self._envs[task]

    def close(self) -> None:
        """Close all environments."""
        for envs in self._envs.values():
            envs.close()
        self._envs = {}


class EvaluationRound:
    """One evaluation in progress; slots are ordered by task, agent and environment.

    Work that every slot needs at every step is done for all of them together. Networks
    compute actions of the tasks that still run, and of finished ones only until half of
    what they compute is wasted: a task may last six times as long as most others, but
    each number of tasks means new compiled programs.
    """

    def __init__(
        self,
        context: HostContext,
        envs: EvaluationEnvs,
        act_on: ActOn,
        slots: int,
        episodes: int,
    ):
        tasks = context.eval_tasks
        self._tasks, self._episodes, self._act_on = tasks, episodes, act_on
        self._spaces = context.tasks.spaces
        self._computed = list(range(len(tasks)))
        self._act = act_on(tasks)
        self._envs = [envs.of(task, slots) for task in tasks]
        self._axes = len(tasks), context.num_agents, slots
        self._slots_per_task = context.num_agents * slots
        total = len(tasks) * self._slots_per_task
        self._previous = context.previous_steps(len(tasks) * slots)
        self._stats = EpisodeStats(total)
        self._episodes_per_slot = -(-episodes // slots)
        # Every slot plays equally many episodes. Taking the first ones to finish would
        # favour short episodes.
        self._missing = np.full(total, self._episodes_per_slot)
        self.unfinished = list(range(len(tasks)))
        """Positions of the tasks of which episodes are missing."""
        self._measures: list[list[np.ndarray]] = [[] for _ in range(total)]
        first = [
            self._spaces.to_network(task.task, vector.start())
            for task, vector in zip(tasks, self._envs, strict=True)
        ]
        self._observations = np.concatenate(first)

    def _inputs(self) -> HostObservation:
        """Return the observations that networks take, `[task, agent, slot, ...]`."""
        observations: Any = self._observations
        if self._previous is not None:
            observations = self._previous.attach(observations)
        return jax.tree.map(
            lambda x: x.reshape(*self._axes, *x.shape[1:])[self._computed],
            observations,
        )

    def step(self, time: int) -> None:
        """Act once on every task that is not finished, on all at the same time."""
        flat = self._choose_actions(time)
        running = [(t, self._envs[t], self._slots_of(t)) for t in self.unfinished]
        # All are sent before any is received, so that pools with threads work at once.
        for task, envs, slots in running:
            envs.send(self._spaces.to_env(self._tasks[task].task, flat[slots]))
        rewards = np.zeros(len(flat))
        ended, valid = np.zeros((2, len(flat)), bool)
        success = np.full(len(flat), np.nan)
        for task, envs, slots in running:
            step = envs.receive()
            index = self._tasks[task].task
            self._observations[slots] = self._spaces.to_network(
                index, step.observations
            )
            rewards[slots], valid[slots] = step.rewards, step.valid
            ended[slots] = step.terminated | step.truncated
            if step.success is not None:
                success[slots] = step.success
        if self._previous is not None:
            self._previous.record(flat, rewards)
            self._previous.reset(ended | ~valid)
        self._stats.count(rewards, success, valid)
        self._end(ended)

    def _choose_actions(self, time: int) -> np.ndarray:
        """Return an action for each slot; those of finished tasks have no effect."""
        running = self.unfinished
        while len(running) <= len(self._computed) // 2:
            finished = [task for task in self._computed if task not in running]
            self._computed = [*running, *finished][: len(self._computed) // 2]
            self._act = self._act_on([self._tasks[t] for t in self._computed])
        computed = np.asarray(self._act(self._inputs(), time))
        actions = np.zeros((*self._axes, *computed.shape[3:]), computed.dtype)
        actions[self._computed] = computed
        return actions.reshape(-1, *computed.shape[3:])

    def _slots_of(self, task: int) -> slice:
        return slice(task * self._slots_per_task, (task + 1) * self._slots_per_task)

    def _end(self, ended: np.ndarray) -> None:
        measures = self._stats.end(ended)
        if not ended.any():
            return
        self._missing -= ended
        for slot in np.flatnonzero(ended):
            self._measures[slot].append(measures[:, slot])
        missing = (self._missing.reshape(len(self._tasks), -1) > 0).any(1)
        self.unfinished = np.flatnonzero(missing).tolist()

    @property
    def measures(self) -> Float[np.ndarray, "measures agents tasks episodes"]:
        """The measures of all episodes."""
        per_slot = [episodes[: self._episodes_per_slot] for episodes in self._measures]
        tasks, agents, _ = self._axes
        by_agent = np.array(per_slot).reshape(tasks, agents, -1, len(MEASURES))
        # Slots may have played a few more than were asked for.
        counted = by_agent[:, :, : self._episodes]
        return counted.transpose(3, 1, 0, 2).astype(np.float32)


class VectorEvaluator:
    """Plays all tasks at once in environments of this process.

    Up to `hosting.evaluators` evaluations can go on at a time, each in environments of
    its own.
    """

    def __init__(self, context: HostContext, policies: HostPolicies):
        self._context, self._policies = context, policies
        numbers = range(context.hosting.evaluators)
        self._all = [EvaluationEnvs(context, number) for number in numbers]
        # Last in, first out: the same environments are used again if they are free.
        self._free: LifoQueue[EvaluationEnvs] = LifoQueue()
        for envs in reversed(self._all):
            self._free.put(envs)

    def evaluate(
        self, policy_of: PolicyOfTask, protocol: Evaluation
    ) -> Float[np.ndarray, "measures agents tasks episodes"]:
        """Return the measures of each episode."""
        slots = min(protocol.episodes, self._context.num_envs)
        act_on = self._make_act_on(policy_of, protocol.greedy)
        # Waits for an evaluation to finish if all environments are in use.
        envs = self._free.get()
        try:
            evaluation = EvaluationRound(
                self._context, envs, act_on, slots, protocol.episodes
            )
            for time in range(LONGEST_EPISODE):
                evaluation.step(time)
                if not evaluation.unfinished:
                    return evaluation.measures
        finally:
            self._free.put(envs)
        task = self._context.eval_tasks[evaluation.unfinished[0]]
        raise endless_episode(self._context.tasks.name(task.task))

    def _make_act_on(self, policy_of: PolicyOfTask, greedy: bool) -> ActOn:
        tasks, table = self._context.eval_tasks, self._context.table
        policies = {task.task: policy_of(task.task) for task in tasks}

        def act_on(
            some: Sequence[EvalTask],
        ) -> Callable[[HostObservation, int], Action]:
            stacked = stack_trees(*(policies[task.task] for task in some))
            data = stack_trees(*(table.task(task.task) for task in some))
            return self._policies.act_in_evaluation(stacked, data, greedy)

        return act_on

    def close(self) -> None:
        """Close all environments."""
        for envs in self._all:
            envs.close()
