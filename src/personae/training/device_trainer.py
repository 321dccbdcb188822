"""Training on environments of the device.

A chunk is one compiled program: the iterations up to an evaluation, and the evaluation.
Methods with a replay store, which is on disk, have one program for each iteration.
"""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from personae.curricula import Evaluation
from personae.learners.contract import ReplayTerm
from personae.rollouts import device_evaluation
from personae.rollouts.device import DeviceActor, training_measures
from personae.rollouts.device_evaluation import EpisodeMeasures
from personae.rollouts.evaluation import EvaluationResult, split_unseen
from personae.rollouts.film import Film, film_on_device
from personae.rollouts.preview import Preview, can_preview, preview
from personae.rollouts.task_data import TaskData, TaskTable
from personae.runs.replay import ReplayStore
from personae.training import update
from personae.training.programs import (
    AgentPrograms,
    BeginVisit,
    sample_shapes,
    stack_iterations,
)
from personae.training.sharding import Program
from personae.training.state import (
    Agent,
    AgentSpec,
    BetweenTasks,
    Chunk,
    ResumeData,
    TrainState,
)
from personae.types import Network, PRNGKey, Space

Metrics: TypeAlias = dict[str, Array]


class ChunkOutput(NamedTuple):
    """The output of a chunk's program."""

    train: TrainState
    metrics: Metrics
    experience: PyTree[Array]
    measures: EpisodeMeasures


def begin_on_device(spec: AgentSpec, actor: DeviceActor) -> BeginVisit:
    """Return the function that puts an agent at the start of a visit."""

    def begin_visit(
        between_tasks: BetweenTasks,
        task: TaskData,
        visit_key: PRNGKey,
        preview_key: PRNGKey,
    ) -> tuple[Agent, Preview | None]:
        # The host splits the same keys, so that methods begin alike in both places.
        method_key, env_key, run_key = jax.random.split(visit_key, 3)
        envs = actor.start(task, env_key)
        agent = update.begin(spec, between_tasks, task, envs, method_key, run_key)
        # Static, so that no program computes a preview that cannot be.
        if not can_preview(actor.env):
            return agent, None
        network = update.policy_of(spec, agent, task)
        return agent, preview(actor, network, task, preview_key)

    return begin_visit


def iterate(
    spec: AgentSpec,
    actor: DeviceActor,
    task: TaskData,
    agent: Agent,
    replay: ReplayTerm | None = None,
) -> update.Updated:
    """Collect one rollout of one agent and learn from it."""
    keys = update.iteration_keys(agent.train)
    network = update.acting_network(spec, agent, task, keys.network)
    envs = agent.train.envs
    assert envs is not None
    collected = actor.collect(network, task, envs, keys.act)
    experience = update.Experience(
        collected.rollout, collected.bootstrap, training_measures(collected.episodes)
    )
    agent = Agent(agent.method_state, agent.train._replace(envs=collected.envs))
    return update.update(spec, task, agent, experience, keys, replay)


UNSEEN = 1
"""Folded into the key of an evaluation, for episodes of unseen variants."""


class UnseenVariants(NamedTuple):
    """The tasks' unseen variants, in an environment of their own.

    An environment of both could have other shapes or randomness than that of the tasks
    alone, and training must not depend on what is tested beside it.
    """

    actor: DeviceActor
    table: TaskTable


class DeviceEvaluation:
    """Evaluation of agents on the device, and films of them."""

    def __init__(
        self,
        programs: AgentPrograms,
        actor: DeviceActor,
        protocol: Evaluation,
        seeds: tuple[int, ...],
        variants: UnseenVariants | None,
    ):
        self._programs, self._actor, self._protocol = programs, actor, protocol
        self._seeds, self._variants = seeds, variants

    def of_agent(
        self, agent: Agent, protocol: Evaluation, key: PRNGKey
    ) -> EpisodeMeasures:
        """Evaluate one agent, as it is now, on every task."""
        spec = self._programs.spec

        def policy_of(task: TaskData) -> Network:
            return update.policy_of(spec, agent, task)

        tasks = self._programs.table.stacked
        trained = device_evaluation.evaluate(
            self._actor, protocol, policy_of, tasks, key
        )
        if self._variants is None:
            return trained
        actor, table = self._variants
        # A key of their own, so that variants do not change the tasks' episodes.
        unseen_key = jax.random.fold_in(key, UNSEEN)
        unseen = device_evaluation.evaluate(
            actor, protocol, policy_of, table.stacked, unseen_key
        )
        return jax.tree.map(lambda *x: jnp.concatenate(x), trained, unseen)

    def after_chunk(self, agent: Agent) -> tuple[TrainState, EpisodeMeasures]:
        """Evaluate one agent after a chunk, with randomness that is not used again."""
        # Evaluations must not repeat the randomness of training, nor disturb it.
        key, evaluation_key = jax.random.split(agent.train.key)
        measures = self.of_agent(agent, self._protocol, evaluation_key)
        return agent.train._replace(key=key), measures

    def result(self, measures: EpisodeMeasures) -> EvaluationResult:
        """Return measures of all agents, `[agent, task, episode]`, as a result."""
        returns, success = self._programs.sharding.to_host(measures)
        return split_unseen(returns, success, self._programs.table.num_tasks)

    def evaluate(self, agents: Agent, protocol: Evaluation) -> EvaluationResult:
        """Play every task with all agents."""
        play = self._programs.sharding.compile(
            lambda agent, _: self.of_agent(agent, protocol, agent.train.key)
        )
        return self.result(play(agents, None))

    def film(self, agents: Agent, index: int, task: int, greedy: bool) -> Film:
        """Play one episode of a task with one agent, and render each step."""
        programs = self._programs
        agent = programs.sharding.select(agents, index)

        def policy_of(task: TaskData) -> Network:
            method, train = programs.spec.method, agent.train
            # Outside the compiled step, so that masks are applied once for the film.
            policy = jax.jit(method.policy)
            network = policy(agent.method_state, train.trainable, task.position)
            return programs.spec.pipeline.apply(network, train.statistics, task)

        data, key = programs.table.task(task), jax.random.key(self._seeds[index])
        return film_on_device(self._actor, policy_of, data, greedy, key)

    def spaces_of(self, task: int) -> tuple[Space, Space]:
        """Return the spaces of a task's observations and actions."""
        return self._actor.env.observation_space, self._actor.env.action_space

    def close(self) -> None:
        """Do nothing: there are no environments to close."""


class DeviceTrainer:
    """Trains on the device: a chunk is one compiled program."""

    def __init__(
        self, programs: AgentPrograms, actor: DeviceActor, evaluation: DeviceEvaluation
    ):
        self._programs, self._actor, self._evaluation = programs, actor, evaluation
        self._iterate = programs.sharding.compile(self._iterate_agent)
        # A program per length, so that what was compiled for one is used again.
        self._chunk = cache(self._compile_chunk)

    def _iterate_agent(self, agent: Agent, task: TaskData) -> update.Updated:
        return iterate(self._programs.spec, self._actor, task, agent)

    def _compile_chunk(self, iterations: int) -> Program[ChunkOutput]:
        def chunk(agent: Agent, task: TaskData) -> ChunkOutput:
            # The method's state stays out of the carry: it does not change in a chunk.
            state = agent.method_state

            def step(
                train: TrainState, _: None
            ) -> tuple[TrainState, tuple[Metrics, PyTree[Array]]]:
                updated = self._iterate_agent(Agent(state, train), task)
                return updated.train, (updated.metrics, updated.samples)

            train, (metrics, experience) = jax.lax.scan(
                step, agent.train, length=iterations
            )
            train, measures = self._evaluation.after_chunk(Agent(state, train))
            return ChunkOutput(train, metrics, experience, measures)

        return self._programs.sharding.compile(chunk)

    def prepare(self, agents: Agent, visit: int, lengths: Iterable[int]) -> None:
        """Compile the training of a visit, for chunks of so many iterations."""
        task = self._programs.table.of_visit(visit)
        for iterations in set(lengths):
            self._chunk(iterations).prepare(agents, task)

    def chunk(
        self, agents: Agent, visit: int, iterations: int, store: ReplayStore | None
    ) -> tuple[Agent, Chunk]:
        """Train all agents for some iterations and evaluate them."""
        task = self._programs.table.of_visit(visit)
        output = self._chunk(iterations)(agents, task)
        to_host = self._programs.sharding.to_host
        result = self._evaluation.result(output.measures)
        chunk = Chunk(
            to_host(output.metrics),
            lambda: result,
            to_host(output.experience),
            ResumeData(),
        )
        return Agent(agents.method_state, output.train), chunk

    def update_shapes(self, agents: Agent, visit: int) -> update.Updated:
        """Return the shapes of the results of one update."""
        task = self._programs.table.of_visit(visit)
        return self._iterate.shapes(agents, task)


class ReplayTrainer:
    """Trains on the device with a replay store: each iteration is one program."""

    def __init__(
        self, programs: AgentPrograms, actor: DeviceActor, evaluation: DeviceEvaluation
    ):
        self._programs, self._actor, self._evaluation = programs, actor, evaluation
        self._iterate = programs.sharding.compile(self._iterate_agent)
        self._evaluate = programs.sharding.compile(
            lambda agent, _: evaluation.after_chunk(agent)
        )

    def _iterate_agent(
        self, agent_and_sample: tuple[Agent, update.Sample | None], task: TaskData
    ) -> update.Updated:
        agent, sample = agent_and_sample
        replay = self._programs.replay_term(agent, sample)
        return iterate(self._programs.spec, self._actor, task, agent, replay)

    def prepare(self, agents: Agent, visit: int, lengths: Iterable[int]) -> None:
        """Compile the training of a visit."""
        shapes = sample_shapes(self._programs.spec, self.update_shapes(agents, visit))
        self._iterate.prepare((agents, shapes), self._programs.table.of_visit(visit))
        self._evaluate.prepare(agents, None)

    def chunk(
        self, agents: Agent, visit: int, iterations: int, store: ReplayStore | None
    ) -> tuple[Agent, Chunk]:
        """Train all agents for some iterations and evaluate them."""
        assert store is not None
        programs, history = self._programs, []
        task = programs.table.of_visit(visit)
        for _ in range(iterations):
            sample = programs.draw_sample(store)
            updated = self._iterate((agents, sample), task)
            assert updated.unrolls is not None
            # The store copies in a thread of its own beside the next iteration.
            store.add(updated.unrolls)
            history.append(updated.metrics)
            agents = Agent(agents.method_state, updated.train)
        train, measures = self._evaluate(agents, None)
        metrics = stack_iterations(programs.sharding.to_host(history))
        result = self._evaluation.result(measures)
        resume = ResumeData(replay=store.snapshot())
        chunk = Chunk(metrics, lambda: result, None, resume)
        return Agent(agents.method_state, train), chunk

    def update_shapes(self, agents: Agent, visit: int) -> update.Updated:
        """Return the shapes of the results of one update."""
        task = self._programs.table.of_visit(visit)
        return self._iterate.shapes((agents, None), task)
