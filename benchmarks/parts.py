"""The parts of a chunk as programs of their own, so that each can be timed."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

import personae
from personae.masks.bank import UNLEARNED, Bank
from personae.methods.masked import MaskedState
from personae.methods.registry import make_method
from personae.training.programs import Programs
from personae.training.update import (
    Agent,
    BetweenTasks,
    TaskData,
    collect,
    evaluate_agent,
    network_on,
)

INTERVAL = 10
"""Iterations in a chunk, as in the paper's CT curricula."""


class Situation:
    """Agents at the start of a task, with masks of other tasks to compose.

    Args:
        method: Name of the method.
        num_learned: Number of tasks learned before.
        num_agents: Number of agents side by side.
    """

    def __init__(self, method: str, num_learned: int, num_agents: int):
        self.curriculum = personae.find_curriculum("ct8" if num_learned < 8 else "ct12")
        configured = make_method(method, self.curriculum.method_options)
        seeds = tuple(range(num_agents))
        self.programs = Programs(self.curriculum, configured, seeds)
        self.visit, self.num_agents = num_learned, num_agents
        fresh = self.programs.init().method
        state = self.programs._resize(num_learned)(fresh, ())
        state = self.programs.lanes.compile(_fill)(state, jnp.asarray(num_learned))
        between_tasks = BetweenTasks(state, None)
        self.agents = self.programs.begin(between_tasks, num_learned, num_learned)[0]

    @property
    def steps(self) -> int:
        """Environment steps of all agents in one iteration."""
        ppo = self.curriculum.ppo
        return ppo.num_envs * ppo.rollout_length * self.num_agents

    def chunk(self) -> Callable[[], Any]:
        """Return a function that runs a whole chunk: iterations and an evaluation."""
        return lambda: self.programs.chunk(self.agents, self.visit, INTERVAL)[1]

    def collect(self) -> Callable[[], Any]:
        """Return a function that collects one rollout."""
        compiled = self.programs.lanes.compile(self._collect_one)
        task = self.programs.task(self.visit)
        return lambda: compiled(self.agents, task)

    def _collect_one(self, agent: Agent, task: TaskData) -> Any:
        setting, live = self.programs.setting, agent.live
        network = network_on(setting, task, agent.method, live.trainable, live.key)
        return collect(setting, network, task, live.worlds, live.key)[1]

    def evaluate(self) -> Callable[[], Any]:
        """Return a function that evaluates as at the end of a chunk."""
        programs = self.programs
        compiled = programs.lanes.compile(
            lambda agent, _: evaluate_agent(
                programs.setting, agent, programs.params, programs.labels
            )
        )
        return lambda: compiled(self.agents, ())

    def update(self) -> Callable[[], Any]:
        """Return a function that makes the updates from one rollout."""
        compiled = self.programs.lanes.compile(self._update_one)
        agents_and_rollouts = (self.agents, self.collect()())
        task = self.programs.task(self.visit)
        return lambda: compiled(agents_and_rollouts, task)

    def _update_one(self, agent_and_rollout: tuple[Agent, Any], task: TaskData) -> Any:
        agent, rollout = agent_and_rollout
        setting = self.programs.setting
        return setting.learner.update(
            agent.live.learner,
            agent.live.trainable,
            partial(network_on, setting, task, agent.method),
            partial(setting.method.penalty, agent.method),
            rollout,
            agent.live.progress(task),
            agent.live.key,
        )


def _fill(state: MaskedState, num_learned: Int[Array, ""]) -> MaskedState:
    """Put made-up scores into the first slots of the bank."""
    bank = state.bank
    scores = jax.tree.map(lambda slots: 0.01 * jnp.cos(slots + 1), bank.scores)
    tasks = jnp.arange(bank.slot_of_task.size)
    filled = Bank(scores, jnp.where(tasks < num_learned, tasks, UNLEARNED))
    return eqx.tree_at(lambda s: s.bank, state, filled)


def seconds(call: Callable[[], Any], least: float) -> float:
    """Return the median time of a call that is compiled already."""
    times: list[float] = []
    while sum(times) < least:
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return median(times)
