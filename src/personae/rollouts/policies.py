"""Policies of all agents on the host: compiled calls, one for each step."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding
from jaxtyping import Array, Float, Int, PyTree

from personae.backbones.batching import apply_network, map_agents
from personae.rollouts.buffer import ActedStep, RolloutBuffer, blank_buffer
from personae.rollouts.contract import BehaviourPolicy
from personae.rollouts.host_context import HostContext, HostObservation
from personae.rollouts.task_data import TaskData
from personae.types import Action, Network, PolicyAndValue, PRNGKey


class HostPolicies:
    """Compiled functions of observations `[agent, env, ...]` for given policies.

    Each method that takes a policy returns a function of the arguments that change at
    every step. Taking policy and task apart at each step would cost as much time as the
    network does.
    """

    def __init__(self, context: HostContext):
        self._pipeline = context.pipeline
        self._compiled: dict[Any, Callable[..., Any]] = {}
        self.device = SingleDeviceSharding(jax.devices()[0])
        """The device of all policies: a call per step is cheapest on a single one."""
        # Called at time limits only, so it need not share the program of acting.
        # Its place is explicit, or acting would be compiled again for other places.
        self.blank_buffer = jax.jit(
            partial(blank_buffer, context), out_shardings=self.device
        )
        self.value = jax.jit(self._value_of_all)
        self.log_prob_and_value = jax.jit(self._log_prob_and_value_of_all)

    def act(
        self, policy: BehaviourPolicy, task: TaskData, greedy: bool
    ) -> Callable[[HostObservation, int], ActedStep]:
        """Return a function of observations and the time that acts on one task."""
        return self._compile(self._act_all, policy, task, greedy)

    def record(
        self, policy: BehaviourPolicy, task: TaskData
    ) -> Callable[[RolloutBuffer, HostObservation], tuple[RolloutBuffer, Action]]:
        """Return a function that acts and writes the step into a rollout buffer."""
        return self._compile(self._record_all, policy, task, greedy=False)

    def act_in_evaluation(
        self, policies: BehaviourPolicy, tasks: TaskData, greedy: bool
    ) -> Callable[[HostObservation, int], Action]:
        """Return a function that acts on several tasks at once, `[task, agent, env]`.

        Policies and tasks are stacked along a leading axis.
        """
        return self._compile(self._act_on_tasks, policies, tasks, greedy)

    def _compile(
        self,
        function: Callable[..., Any],
        policy: BehaviourPolicy,
        task: TaskData,
        greedy: bool,
    ) -> Callable[..., Any]:
        leaves, structure = jax.tree.flatten((policy, task))

        def call(leaves: Any, *arguments: Any) -> Any:
            policy, task = jax.tree.unflatten(structure, leaves)
            return function(policy, task, *arguments, greedy=greedy)

        # The buffer is filled in place instead of being copied at each step.
        donated = (1,) if function == self._record_all else ()
        compiled = jax.jit(call, donate_argnums=donated)
        # A new policy has the same structure, so its program is found again.
        key = (function, structure, greedy)
        return partial(self._compiled.setdefault(key, compiled), leaves)

    def _network(self, policy: BehaviourPolicy, task: TaskData) -> Network:
        return self._pipeline.apply(policy.network, policy.statistics, task)

    def _act_all(
        self,
        policy: BehaviourPolicy,
        task: TaskData,
        observations: HostObservation,
        time: Int[Array, ""] | int,
        greedy: bool,
    ) -> ActedStep:
        """Return the step that all agents take, `[agent, env, ...]`."""

        def act(policy: BehaviourPolicy, observations: HostObservation) -> ActedStep:
            distribution, value = apply_network(
                self._network(policy, task), observations
            )
            # The time is folded in here, so that the host sends no key at each step.
            key: PRNGKey = jax.random.fold_in(policy.key, time)
            action = distribution.mode() if greedy else distribution.sample(key)
            log_prob = distribution.log_prob(action)
            return ActedStep(observations, action, log_prob, value)

        return map_agents(act, observations, 2)(policy, observations)

    def _record_all(
        self,
        policy: BehaviourPolicy,
        task: TaskData,
        buffer: RolloutBuffer,
        observations: HostObservation,
        greedy: bool,
    ) -> tuple[RolloutBuffer, Action]:
        step = self._act_all(policy, task, observations, buffer.time, greedy)

        def write(steps: Array, value: Array) -> Array:
            return jax.lax.dynamic_update_index_in_dim(steps, value, buffer.time, 1)

        steps = jax.tree.map(write, buffer.steps, step)
        return RolloutBuffer(steps, buffer.time + 1), step.action

    def _act_on_tasks(
        self,
        policies: BehaviourPolicy,
        tasks: TaskData,
        observations: HostObservation,
        time: Int[Array, ""] | int,
        greedy: bool,
    ) -> Action:
        def act(
            policy: BehaviourPolicy, task: TaskData, observations: HostObservation
        ) -> Action:
            return self._act_all(policy, task, observations, time, greedy).action

        # One call for all tasks: a call costs more than the networks are worth.
        return map_agents(act, observations, 3)(policies, tasks, observations)

    def _value_of_all(
        self, policy: BehaviourPolicy, task: TaskData, observations: HostObservation
    ) -> Float[Array, "agents envs"]:
        def value(policy: BehaviourPolicy, observations: HostObservation) -> Array:
            return apply_network(self._network(policy, task), observations)[1]

        return map_agents(value, observations, 2)(policy, observations)

    def _log_prob_and_value_of_all(
        self,
        policy: BehaviourPolicy,
        task: TaskData,
        observations: HostObservation,
        actions: Action,
    ) -> "LogProbAndValue":
        """Return log-probability and value of steps, `[agent, time, env]`."""

        def look_up(
            policy: BehaviourPolicy, observations: HostObservation, actions: Action
        ) -> LogProbAndValue:
            network = self._network(policy, task)
            answer: PolicyAndValue = apply_network(network, observations, axes=2)
            distribution, value = answer
            return LogProbAndValue(distribution.log_prob(actions), value)

        return map_agents(look_up, observations, 3)(policy, observations, actions)


class LogProbAndValue(NamedTuple):
    """The log-probability and value of actions that processes have chosen."""

    log_prob: Float[Array, "..."]
    value: Float[Array, "..."]


def stack_trees(*trees: PyTree[Array]) -> PyTree[Array]:
    """Stack trees of arrays along a new leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
