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
from personae.training import device
from personae.training.programs import Programs

INTERVAL = 10
"""Iterations in a chunk, as in the paper's CT curricula."""


class Situation:
    """Agents at the start of a task, with so many earlier masks to compose."""

    def __init__(self, method: str, earlier: int, num_agents: int):
        self.curriculum = personae.find_curriculum("ct8" if earlier < 8 else "ct12")
        chosen = make_method(method, self.curriculum.method_options)
        seeds = tuple(range(num_agents))
        self.programs = Programs(self.curriculum, chosen, seeds)
        self.visit, self.num_agents = earlier, num_agents
        fresh = self.programs.init().method
        state = self.programs._resize(earlier)(fresh, ())
        state = self.programs.lanes.compile(_fill)(state, jnp.asarray(earlier))
        resting = device.BetweenTasks(state, None)
        self.agents = self.programs.begin(resting, earlier, earlier)[0]

    @property
    def steps(self) -> int:
        """Environment steps of all agents in one iteration."""
        ppo = self.curriculum.ppo
        return ppo.num_envs * ppo.rollout_length * self.num_agents

    def chunk(self) -> Callable[[], Any]:
        """Return a whole chunk: iterations and an evaluation."""
        return lambda: self.programs.chunk(self.agents, self.visit, INTERVAL)[1]

    def collect(self) -> Callable[[], Any]:
        """Return the collecting of one rollout."""
        compiled = self.programs.lanes.compile(self._collect_one)
        task = self.programs.task(self.visit)
        return lambda: compiled(self.agents, task)

    def _collect_one(self, agent: device.Agent, task: device.TaskData) -> Any:
        setting, live = self.programs.setting, agent.live
        network = device.network_on(
            setting, task, agent.method, live.trainable, live.key
        )
        return device.collect(setting, network, task, live.worlds, live.key)[1]

    def evaluate(self) -> Callable[[], Any]:
        """Return the evaluation at the end of a chunk."""
        programs = self.programs
        compiled = programs.lanes.compile(
            lambda agent, _: device.evaluate_agent(
                programs.setting, agent, programs.params, programs.labels
            )
        )
        return lambda: compiled(self.agents, ())

    def update(self) -> Callable[[], Any]:
        """Return the updates from one rollout."""
        compiled = self.programs.lanes.compile(self._update_one)
        agents_and_rollouts = (self.agents, self.collect()())
        task = self.programs.task(self.visit)
        return lambda: compiled(agents_and_rollouts, task)

    def _update_one(
        self, agent_and_rollout: tuple[device.Agent, Any], task: device.TaskData
    ) -> Any:
        agent, rollout = agent_and_rollout
        setting = self.programs.setting
        return setting.learner.update(
            agent.live.learner,
            agent.live.trainable,
            partial(device.network_on, setting, task, agent.method),
            partial(setting.method.penalty, agent.method),
            rollout,
            agent.live.progress(task),
            agent.live.key,
        )


def _fill(state: MaskedState, earlier: Int[Array, ""]) -> MaskedState:
    """Put scores, which need not have been learned, into the first slots."""
    bank = state.bank
    scores = jax.tree.map(lambda slots: 0.01 * jnp.cos(slots + 1), bank.scores)
    tasks = jnp.arange(bank.slot_of_task.size)
    filled = Bank(scores, jnp.where(tasks < earlier, tasks, UNLEARNED))
    return eqx.tree_at(lambda s: s.bank, state, filled)


def seconds(call: Callable[[], Any], least: float) -> float:
    """Return the median time of a call; its first one, which compiles, is past."""
    times: list[float] = []
    while sum(times) < least:
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    return median(times)
