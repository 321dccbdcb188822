"""The parts of a chunk as programs of their own, so that each can be timed."""

import time
from collections.abc import Callable
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
from personae.rollouts.normalise import Statistics
from personae.rollouts.task_data import TaskData
from personae.training import update
from personae.training.factory import make_training
from personae.training.state import Agent, BetweenTasks

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
        self.training = make_training(self.curriculum, configured, seeds)
        self.programs, self.trainer = self.training.programs, self.training.trainer
        self.visit, self.num_agents = num_learned, num_agents
        fresh = self.programs.init().method_state
        state = self.programs._resize(num_learned)(fresh, None)
        state = self.programs.sharding.compile(_fill)(state, jnp.asarray(num_learned))
        resting = BetweenTasks(state, None, Statistics(None, None))
        self.agents = self.programs.begin(resting, num_learned, num_learned)[0]
        self.task = self.programs.table.of_visit(num_learned)

    @property
    def steps(self) -> int:
        """Environment steps of all agents in one iteration."""
        ppo = self.curriculum.ppo
        return ppo.num_envs * ppo.rollout_length * self.num_agents

    def chunk(self) -> Callable[[], Any]:
        """Return a function that runs a whole chunk: iterations and an evaluation."""
        return lambda: self.trainer.chunk(self.agents, self.visit, INTERVAL, None)[1]

    def collect(self) -> Callable[[], Any]:
        """Return a function that collects one rollout."""
        compiled = self.programs.sharding.compile(self._collect_one)
        return lambda: compiled(self.agents, self.task)

    def _collect_one(self, agent: Agent, task: TaskData) -> Any:
        key = agent.train.key
        network = update.acting_network(self.programs.spec, agent, task, key)
        actor = self.trainer._actor
        return actor.collect(network, task, agent.train.envs, key).rollout

    def evaluate(self) -> Callable[[], Any]:
        """Return a function that evaluates as at the end of a chunk."""
        evaluation = self.training.evaluation
        compiled = self.programs.sharding.compile(
            lambda agent, _: evaluation.after_chunk(agent)[1]
        )
        return lambda: compiled(self.agents, None)

    def update(self) -> Callable[[], Any]:
        """Return a function that makes the updates from one rollout."""
        compiled = self.programs.sharding.compile(self._update_one)
        agents_and_rollouts = (self.agents, self.collect()())
        return lambda: compiled(agents_and_rollouts, self.task)

    def _update_one(self, agent_and_rollout: tuple[Agent, Any], task: TaskData) -> Any:
        agent, rollout = agent_and_rollout
        experience = update.Experience(rollout, None, {})
        keys = update.iteration_keys(agent.train)
        return update.update(self.programs.spec, task, agent, experience, keys)


def _fill(state: MaskedState, num_learned: Int[Array, ""]) -> MaskedState:
    """Put scores, which need not have been learned, into the first slots."""
    bank = state.bank
    scores = jax.tree.map(lambda slots: 0.01 * jnp.cos(slots + 1), bank.scores)
    tasks = jnp.arange(bank.slot_of_task.size)
    filled = Bank(scores, jnp.where(tasks < num_learned, tasks, UNLEARNED))
    return eqx.tree_at(lambda s: s.bank, state, filled)


def seconds(call: Callable[[], Any], least: float) -> float:
    """Return the median time of a call; its first one, which compiles, is past."""
    times: list[float] = []
    while sum(times) < least:
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return median(times)
