"""Compiled programs of what happens between chunks: mapped over all agents.

Programs are compiled again only when shapes change, that is when a method's `resize`
returns other shapes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from personae.backbones.build import build_network
from personae.curricula import Curriculum
from personae.learners.contract import ReplayTerm, Samples
from personae.methods.contract import InputPipeline
from personae.rollouts.preview import Preview
from personae.rollouts.task_data import TaskData, TaskTable
from personae.runs.replay import ReplayRecord, ReplayStore
from personae.training import update
from personae.training.sharding import Program, Sharding
from personae.training.state import Agent, AgentSpec, BetweenTasks
from personae.types import Network, PolicyAndValue, PRNGKey, WithTask

BACKBONE, LIFE, PREVIEW = range(3)
"""Purposes of a seed's randomness: equal seeds give equal backbones and visits,
whatever the method, so that methods are compared on the same draws."""

SampleShapes: TypeAlias = tuple[ReplayRecord, jax.ShapeDtypeStruct]
"""The shapes of a replay sample."""
BeginVisit: TypeAlias = Callable[
    [BetweenTasks, TaskData, PRNGKey, PRNGKey], tuple[Agent, Preview | None]
]
"""Puts one agent at the start of a visit, from the randomness of the visit and of the
preview."""


class AgentPrograms:
    """The programs that a run calls between chunks, wherever environments are.

    Each takes and returns all agents at once.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        spec: AgentSpec,
        table: TaskTable,
        sharding: Sharding,
        seeds: tuple[int, ...],
        begin_visit: BeginVisit,
    ):
        self.spec, self.table, self.sharding = spec, table, sharding
        self._network_options = curriculum.network
        self._begin_visit = begin_visit
        self._keys = sharding.to_devices(_keys(seeds))
        self._init = sharding.compile(self._init_agent)
        self._begin = sharding.compile(self._begin_agent)
        self._next_phase = sharding.compile(self._next_phase_of_agent)
        self._accumulate = sharding.compile(self._accumulate_agent)
        self._end = sharding.compile(self._end_agent)
        self._export = sharding.compile(self._export_agent)
        # A program per size, so that what was compiled for one is used again.
        self._resize = cache(self._compile_resize)

    def _init_agent(self, key: PRNGKey, _: None) -> BetweenTasks:
        spec, traits = self.spec, self.spec.method.traits
        build_key, method_key = jax.random.split(jax.random.fold_in(key, BACKBONE))
        shape = spec.observation_space.shape
        assert shape is not None
        network = build_network(
            self._network_options,
            shape,
            spec.pipeline.encoder.extra_size,
            spec.action_space,
            traits.use_bias,
            build_key,
        )
        num_tasks = self.table.num_tasks
        state = spec.method.init(network, num_tasks, method_key)
        statistics = spec.pipeline.initial_statistics(num_tasks, math.prod(shape))
        learner_state = None
        if traits.keeps_optimiser:
            learner_state = spec.learner.init(spec.method.trainable(state))
        return BetweenTasks(state, learner_state, statistics)

    def _compile_resize(self, learned: int) -> Program[PyTree[Array]]:
        return self.sharding.compile(
            lambda state, _: self.spec.method.resize(state, learned)
        )

    def _begin_agent(
        self,
        agent: tuple[BetweenTasks, PRNGKey],
        shared: tuple[Int[Array, ""], TaskData],
    ) -> tuple[Agent, Preview | None]:
        (between_tasks, key), (visit, task) = agent, shared
        visit_key = jax.random.fold_in(jax.random.fold_in(key, LIFE), visit)
        # Its own purpose: a preview must not change what is learned.
        preview_key = jax.random.fold_in(jax.random.fold_in(key, PREVIEW), visit)
        return self._begin_visit(between_tasks, task, visit_key, preview_key)

    def _next_phase_of_agent(self, agent: Agent, _: None) -> Agent:
        return update.next_phase(self.spec, agent)

    def _accumulate_agent(
        self,
        agent_and_experience: tuple[Agent, Samples | ReplayRecord],
        shared: tuple[TaskData, Int[Array, ""]],
    ) -> PyTree[Array]:
        (agent, experience), (task, part) = agent_and_experience, shared
        pipeline = update.task_pipeline(self.spec, agent, task)
        if self.spec.method.traits.replay is not None:
            pipeline = any_task_pipeline(self.spec, agent, self.table)
        network_of = update.gradient_network_of(self.spec, agent.method_state, pipeline)
        return update.accumulate_gradient(
            self.spec, agent, network_of, experience, part
        )

    def _end_agent(self, agent: Agent, _: None) -> BetweenTasks:
        return update.end(self.spec, agent)

    def _export_agent(self, agent: Agent, _: None) -> Mapping[str, Array]:
        return self.spec.method.export(agent.method_state, agent.train.trainable)

    def init(self) -> BetweenTasks:
        """Return each agent before its first task."""
        return self._init(self._keys, None)

    def check(self) -> None:
        """Raise an error if settings are invalid, without computing anything."""
        self._init.shapes(self._keys, None)

    def fixed(self, state: PyTree[Array]) -> Mapping[str, np.ndarray]:
        """Return the arrays of each agent that never change."""
        describe = self.sharding.compile(lambda s, _: self.spec.method.fixed(s))
        return self.sharding.to_host(describe(state, None))

    def begin(
        self, between_tasks: BetweenTasks, visit: int, learned: int
    ) -> tuple[Agent, Preview | None]:
        """Put all agents at the start of a visit, having learned so many tasks.

        Also return their actions on the task before training, if these are known.
        """
        # The bank may grow here and nowhere else, as shapes are part of programs.
        state = self._resize(learned)(between_tasks.method_state, None)
        between_tasks = between_tasks._replace(method_state=state)
        return self._begin((between_tasks, self._keys), self._visit(visit))

    def _visit(self, visit: int) -> tuple[Int[Array, ""], TaskData]:
        return jnp.asarray(visit, jnp.int32), self.table.of_visit(visit)

    def next_phase(self, agents: Agent) -> Agent:
        """Change all agents over to the next phase of their visit."""
        return self._next_phase(agents, None)

    def accumulate_gradient(
        self, agents: Agent, visit: int, part: int, experience: PyTree
    ) -> Agent:
        """Let all agents look back on a part of their experience."""
        shared = (self.table.of_visit(visit), jnp.asarray(part, jnp.int32))
        on_devices = self.sharding.to_devices(experience)
        state = self._accumulate((agents, on_devices), shared)
        return Agent(state, agents.train)

    def export(self, agents: Agent) -> Mapping[str, np.ndarray]:
        """Return the arrays that a visit's mask file holds."""
        return self.sharding.to_host(self._export(agents, None))

    def end(self, agents: Agent, learned: int) -> BetweenTasks:
        """Finish a visit with room for so many learned tasks."""
        state = self._resize(learned)(agents.method_state, None)
        return self._end(Agent(state, agents.train), None)

    def replay_term(
        self, agent: Agent, sample: update.Sample | None
    ) -> ReplayTerm | None:
        """Return the part of one agent's loss that a replay sample adds, if any."""
        if sample is None:
            return None
        pipeline = any_task_pipeline(self.spec, agent, self.table)
        return update.replay_term(self.spec, agent.method_state, pipeline, sample)

    def draw_sample(self, store: ReplayStore | None) -> update.Sample | None:
        """Return a sample for an update, on the devices; None if it needs none."""
        replay = self.spec.method.traits.replay
        if store is None or replay is None or not replay.share:
            return None
        # The store has one entry per agent; devices may repeat the last one.
        unrolls, available = store.sample()
        return self.sharding.to_devices((unrolls, jnp.asarray(available)))

    def prepare_begin(self, visit: int, learned: int) -> Agent:
        """Compile the start of a visit; return the shapes of its agents.

        Called in another thread while the visit before is trained.
        """
        start = self._shapes_at_start(visit, learned)
        self._begin.prepare(*start)
        return self._begin.shapes(*start)[0]

    def prepare_end(self, agents: Agent, learned: int) -> None:
        """Compile the export and the end of a visit, with so many tasks learned."""
        self._export.prepare(agents, None)
        state = self._resize(learned).shapes(agents.method_state, None)
        self._end.prepare(Agent(state, agents.train), None)

    def agent_shapes(self, visit: int, learned: int) -> Agent:
        """Return the shapes of all agents in a visit, having learned so many tasks."""
        return self._begin.shapes(*self._shapes_at_start(visit, learned))[0]

    def _shapes_at_start(
        self, visit: int, learned: int
    ) -> tuple[
        tuple[BetweenTasks, Key[Array, " agents"]], tuple[Int[Array, ""], TaskData]
    ]:
        between_tasks = self._init.shapes(self._keys, None)
        state = self._resize(learned).shapes(between_tasks.method_state, None)
        between_tasks = between_tasks._replace(method_state=state)
        return (between_tasks, self._keys), self._visit(visit)


def any_task_pipeline(spec: AgentSpec, agent: Agent, table: TaskTable) -> InputPipeline:
    """Return the pipeline of observations `WithTask`, whatever their task."""

    def pipeline(network: Network) -> Network:
        def act(observation: WithTask) -> PolicyAndValue:
            task = table.select(observation.task)
            of_task = update.task_pipeline(spec, agent, task)
            return of_task(network)(observation.observation)

        return act

    return pipeline


def sample_shapes(spec: AgentSpec, updated: update.Updated) -> SampleShapes | None:
    """Return the shapes of a replay sample, from those of an update."""
    replay = spec.method.traits.replay
    number = 0 if replay is None else replay.unrolls(spec.learner.num_envs)
    if number == 0:
        return None

    def resized(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        shape = (leaf.shape[0], number, *leaf.shape[2:])
        return jax.ShapeDtypeStruct(shape, leaf.dtype)

    shapes: ReplayRecord = jax.tree.map(resized, updated.unrolls)
    return shapes, jax.ShapeDtypeStruct(shapes.task.shape, np.bool_)


def unroll_shapes(sharding: Sharding, updated: update.Updated) -> ReplayRecord:
    """Return the shapes of one unroll of all agents, as the store keeps it."""

    def one_unroll(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        shape = (leaf.shape[0], *leaf.shape[2:])
        return jax.ShapeDtypeStruct(shape, leaf.dtype)

    unroll: ReplayRecord = jax.tree.map(
        one_unroll, sharding.host_shapes(updated.unrolls)
    )
    return unroll


def experience_shapes(
    sharding: Sharding, updated: update.Updated, iterations: int
) -> PyTree[jax.ShapeDtypeStruct]:
    """Return the shapes of a chunk's experience, from those of an update."""

    def stacked(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        shape = (leaf.shape[0], iterations, *leaf.shape[1:])
        return jax.ShapeDtypeStruct(shape, leaf.dtype)

    return jax.tree.map(stacked, sharding.host_shapes(updated.samples))


def stack_iterations(history: Sequence[Any]) -> Any:
    """Stack the results of iterations, `[agent, iteration, ...]`."""
    return jax.tree.map(lambda *leaves: np.stack(leaves, 1), *history)


def _keys(seeds: tuple[int, ...]) -> Key[Array, " agents"]:
    # From the seed alone, so that an agent does not depend on its neighbours.
    return jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))
