"""Training on environments of the host: the same agents, with experience from actors.

The policies of all agents are one compiled call per step, and all their environments
are stepped together. Observations are carried to the devices once, and stay there.
"""

from collections.abc import Iterable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from personae.curricula import Evaluation
from personae.envs.episode_stats import MEASURES
from personae.rollouts.buffer import RolloutShapes, rollout_shapes
from personae.rollouts.contract import (
    Actors,
    BehaviourPolicy,
    CollectedRollout,
    Evaluator,
)
from personae.rollouts.evaluation import (
    EvaluationResult,
    Measure,
    missing_success,
    split_unseen,
)
from personae.rollouts.film import Film, film_on_host
from personae.rollouts.host_context import HostContext
from personae.rollouts.policies import HostPolicies
from personae.rollouts.task_data import TaskData
from personae.runs.replay import ReplayStore
from personae.training import update
from personae.training.programs import (
    AgentPrograms,
    BeginVisit,
    sample_shapes,
    stack_iterations,
)
from personae.training.state import (
    Agent,
    AgentSpec,
    BetweenTasks,
    Chunk,
    ResumeData,
)
from personae.types import PRNGKey, Rollout, Space

EVALUATION_KEY_FOLD = 1_000
"""Folded into keys, so that evaluations do not repeat the randomness of training."""


def begin_on_host(spec: AgentSpec) -> BeginVisit:
    """Return the function that puts an agent at the start of a visit."""

    def begin_visit(
        between_tasks: BetweenTasks, task: TaskData, visit_key: PRNGKey, _: PRNGKey
    ) -> tuple[Agent, None]:
        method_key, _, run_key = jax.random.split(visit_key, 3)
        return update.begin(spec, between_tasks, task, None, method_key, run_key), None

    return begin_visit


class HostEvaluation:
    """Evaluation of agents on the host, and films of them."""

    def __init__(
        self,
        programs: AgentPrograms,
        context: HostContext,
        policies: HostPolicies,
        evaluator: Evaluator,
    ):
        self._programs, self._context, self._policies = programs, context, policies
        self._evaluator = evaluator
        self._policy = programs.sharding.compile(self._policy_of_agent)

    def _policy_of_agent(self, agent: Agent, task: TaskData) -> BehaviourPolicy:
        method, train = self._programs.spec.method, agent.train
        network = method.policy(agent.method_state, train.trainable, task.position)
        key = jax.random.fold_in(train.key, EVALUATION_KEY_FOLD)
        return BehaviourPolicy(network, train.statistics, key)

    def _policies_of(self, agents: Agent, index: int) -> BehaviourPolicy:
        policy = self._policy(agents, self._context.table.task(index))
        return self._programs.sharding.on_one_device(policy, self._policies.device)

    def prepare(self, agents: Agent, task: TaskData) -> None:
        """Compile the program that gives the policies to evaluate."""
        self._policy.prepare(agents, task)

    def evaluate(self, agents: Agent, protocol: Evaluation) -> EvaluationResult:
        """Play every task with all agents."""
        returns, success = self._evaluator.evaluate(
            partial(self._policies_of, agents), protocol
        )
        if protocol.measure != "success":
            return split_unseen(returns, None, self._context.table.num_tasks)
        for position in np.flatnonzero(np.isnan(success).any((0, 2))):
            task = self._context.eval_tasks[int(position)]
            raise missing_success(self._context.tasks.name(task.task))
        return split_unseen(returns, success, self._context.table.num_tasks)

    def film(self, agents: Agent, index: int, task: int, greedy: bool) -> Film:
        """Play one episode of a task with one agent, and render each step."""
        policy = self._policies_of(agents, task)
        return film_on_host(self._context, self._policies, policy, index, task, greedy)

    def spaces_of(self, task: int) -> tuple[Space, Space]:
        """Return the spaces of a task's observations and actions."""
        spaces = self._context.tasks.spaces
        return spaces.observation_spaces[task], spaces.action_spaces[task]

    def close(self) -> None:
        """Close all environments of evaluations."""
        self._evaluator.close()


class HostTrainer:
    """Trains on rollouts that actors on the host collect."""

    def __init__(
        self,
        programs: AgentPrograms,
        context: HostContext,
        policies: HostPolicies,
        actors: Actors,
        evaluation: HostEvaluation,
        protocol: Evaluation,
    ):
        self._programs, self._context, self._policies = programs, context, policies
        self._actors, self._evaluation = actors, evaluation
        self._protocol = protocol
        self._behaviour = programs.sharding.compile(self._behaviour_of_agent)
        self._update = programs.sharding.compile(self._update_agent)

    @property
    def _measure(self) -> Measure:
        return self._protocol.measure

    def _behaviour_of_agent(self, agent: Agent, task: TaskData) -> BehaviourPolicy:
        # The update splits the same keys from the same state.
        keys, train = update.iteration_keys(agent.train), agent.train
        network = self._programs.spec.method.network(
            agent.method_state, train.trainable, keys.network
        )
        return BehaviourPolicy(network, train.statistics, keys.act)

    def _update_agent(
        self,
        inputs: tuple[
            Agent,
            update.Sample | None,
            Rollout,
            Float[Array, "time envs"],
            Float[Array, " measures"],
        ],
        task: TaskData,
    ) -> update.Updated:
        """Learn from one rollout, and from a replay sample if there is one."""
        agent, sample, rollout, bootstrap, ended = inputs
        before = agent.train.measures
        assert before is not None
        # Where no episode has ended, the measure of the last one stands.
        measures = jnp.where(jnp.isnan(ended), before, ended)
        logged = dict(zip(MEASURES, measures, strict=True))
        if self._measure != "success":
            del logged["success"]
        agent = agent._replace(train=agent.train._replace(measures=measures))
        return update.update(
            self._programs.spec,
            task,
            agent,
            update.Experience(rollout, bootstrap, logged),
            update.iteration_keys(agent.train),
            self._programs.replay_term(agent, sample),
        )

    def prepare(self, agents: Agent, visit: int, lengths: Iterable[int]) -> None:
        """Compile the training of a visit."""
        task = self._context.table.of_visit(visit)
        self._behaviour.prepare(agents, task)
        self._evaluation.prepare(agents, task)
        sample = sample_shapes(self._programs.spec, self.update_shapes(agents, visit))
        self._update.prepare((agents, sample, *self._rollout_shapes()), task)

    def _rollout_shapes(self) -> RolloutShapes:
        shapes = rollout_shapes(self._context)
        return self._programs.sharding.device_shapes(shapes)

    def update_shapes(self, agents: Agent, visit: int) -> update.Updated:
        """Return the shapes of the results of one update."""
        inputs = (agents, None, *self._rollout_shapes())
        task = self._context.table.of_visit(visit)
        return self._update.shapes(inputs, task)

    def chunk(
        self, agents: Agent, visit: int, iterations: int, store: ReplayStore | None
    ) -> tuple[Agent, Chunk]:
        """Train all agents for some iterations; evaluate them at once or later."""
        to_host, history, experience = self._programs.sharding.to_host, [], []
        for _ in range(iterations):
            agents, metrics, samples = self.iterate(agents, visit, store)
            history.append(metrics)
            experience.append(to_host(samples))
        chunk = Chunk(
            stack_iterations(to_host(history)),
            # Bound to the agents of this chunk: training goes on with new ones.
            partial(self._evaluation.evaluate, agents, self._protocol),
            None if experience[0] is None else stack_iterations(experience),
            ResumeData(
                self._actors.snapshot(), None if store is None else store.snapshot()
            ),
            self._actors.report(),
        )
        if not self._actors.acts_during_training:
            # Actors that wait leave the cores to the evaluation.
            result = chunk.evaluate()
            chunk = chunk._replace(evaluate=lambda: result)
        return agents, chunk

    def behaviour(self, agents: Agent, visit: int) -> BehaviourPolicy:
        """Return the policies that act in a visit, on one device."""
        policy = self._behaviour(agents, self._context.table.of_visit(visit))
        return self._programs.sharding.on_one_device(policy, self._policies.device)

    def iterate(
        self, agents: Agent, visit: int, store: ReplayStore | None
    ) -> tuple[Agent, Mapping[str, Array | np.ndarray], PyTree[Array]]:
        """Learn from one rollout; return agents, metrics and samples.

        Metrics are left on the devices, so that nothing waits for them.
        """
        programs, task = self._programs, self._context.table.of_visit(visit)
        collected = self._actors.collect(self.behaviour(agents, visit), visit)
        self._check_success(collected, visit)
        # Observations are on a device already; the rest is small.
        on_devices = programs.sharding.to_devices(collected.to_learn)
        sample = programs.draw_sample(store)
        updated = self._update((agents, sample, *on_devices), task)
        # Starts the copy, so that the end of the chunk need not wait for it.
        for leaf in updated.metrics.values():
            leaf.copy_to_host_async()
        metrics: Mapping[str, Array | np.ndarray] = updated.metrics
        if collected.policy_lag is not None:
            num_agents, policy_lag = self._context.num_agents, collected.policy_lag
            lag = np.full(num_agents, policy_lag, np.float32)
            metrics = {**metrics, "policy_lag": lag}
        if store is not None and updated.unrolls is not None:
            store.add(updated.unrolls)
        return Agent(agents.method_state, updated.train), metrics, updated.samples

    def _check_success(self, collected: CollectedRollout, visit: int) -> None:
        none_ended, none_reported = np.isnan(collected.measures.T)
        if self._measure == "success" and (none_reported & ~none_ended).any():
            raise missing_success(self._context.task_name(visit))
