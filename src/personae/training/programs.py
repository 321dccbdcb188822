"""The compiled programs of a run: everything mapped over the agents.

Programs are compiled again only when shapes change, that is when a method's `resize`
returns other shapes, or for a last chunk with fewer iterations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from personae.backbones.build import build_network
from personae.backbones.encoder import Encoder
from personae.curricula import Curriculum, Evaluation, Normalisers
from personae.envs.registry import find_family
from personae.errors import UsageError, require
from personae.learners.contract import Samples
from personae.methods.contract import InputPipeline, Method
from personae.rollouts.film import Film, play_film
from personae.rollouts.preview import Preview, can_preview, preview
from personae.runs.replay import ReplayRecord, ReplayStore
from personae.training import update as device
from personae.training.sharding import Program, Sharding
from personae.training.update import (
    Agent,
    AgentSpec,
    BetweenTasks,
    ChunkResult,
    TaskData,
)
from personae.types import Network, PRNGKey, WithTask

BACKBONE, LIFE, PREVIEW = range(3)
"""Purposes of a seed's randomness: equal seeds give equal backbones and visits,
whatever the method, so that methods are compared on the same draws."""


class Programs:
    """What a run calls: each takes and returns all agents at once."""

    def __init__(
        self,
        curriculum: Curriculum,
        method: Method,
        seeds: tuple[int, ...],
        devices: int | None = None,
    ):
        env, self.params = self._make_env(curriculum)
        inputs = curriculum.inputs
        recalled = env.action_space if inputs.previous_step else None
        encoder = Encoder(inputs.scale, curriculum.label_dim, recalled)
        self.setting = AgentSpec(
            env, encoder, method, curriculum.chosen_learner, curriculum.evaluation
        )
        self.lanes = Sharding(len(seeds), devices)
        self._seeds = seeds
        self._curriculum = curriculum
        self.memory: ReplayStore | None = None
        self.labels = jnp.asarray(curriculum.labels, jnp.int32)
        self._keys = self.lanes.place(_keys(seeds))
        self._init = self.lanes.compile(self._init_agent)
        self._begin = self.lanes.compile(self._begin_agent)
        self._iterate = self.lanes.compile(self._iterate_agent)
        self._next_phase = self.lanes.compile(self._next_phase_of_agent)
        self._review = self.lanes.compile(self._review_agent)
        self._end = self.lanes.compile(self._end_agent)
        self._export = self.lanes.compile(self._export_agent)
        # A method per size, so that what was compiled for one is found again.
        self._resize = cache(self._compile_resize)
        self._chunk = cache(self._compile_chunk)
        self.task_data = cache(self._task_data)

    def _make_env(self, curriculum: Curriculum) -> tuple[Any, Any]:
        """Return what all tasks have in common, and what tells them apart."""
        families = {task.env for task in curriculum.tasks}
        if len(families) > 1:
            raise UsageError(
                f"the tasks of {curriculum.id!r} come from several environment "
                f"families ({', '.join(sorted(families))}); one is supported"
            )
        require(
            curriculum.normalise == Normalisers(),
            f"{curriculum.id!r} is learned in JAX environments, whose inputs are "
            "scaled (inputs.scale), not normalised (normalise)",
        )
        require(
            not curriculum.inputs.previous_step,
            f"{curriculum.id!r} is learned in JAX environments, which do not recall "
            "the last action and reward (inputs.previous_step)",
        )
        options = [task.options for task in curriculum.tasks]
        return find_family(families.pop())(options)

    def _init_agent(self, key: PRNGKey, _: Any) -> BetweenTasks:
        setting, curriculum = self.setting, self._curriculum
        traits = setting.method.traits
        build_key, method_key = jax.random.split(jax.random.fold_in(key, BACKBONE))
        space = setting.env.observation_space
        assert isinstance(space, gym.spaces.Box)
        network = build_network(
            curriculum.network,
            space.shape,
            setting.encoder.beside,
            setting.env.action_space,
            traits.use_bias,
            build_key,
        )
        state = setting.method.init(network, len(curriculum.tasks), method_key)
        if not traits.keeps_optimiser:
            return BetweenTasks(state, None)
        return BetweenTasks(
            state, setting.learner.init(setting.method.trainable(state))
        )

    def _compile_resize(self, learned: int) -> Program[Any]:
        return self.lanes.compile(
            lambda state, _: self.setting.method.resize(state, learned)
        )

    def _begin_agent(
        self,
        agent: tuple[BetweenTasks, PRNGKey],
        shared: tuple[Int[Array, ""], TaskData],
    ) -> tuple[Agent, Preview | None]:
        (resting, key), (visit, task) = agent, shared
        visit_key = jax.random.fold_in(jax.random.fold_in(key, LIFE), visit)
        begun = device.begin(self.setting, resting, task, visit_key)
        if not can_preview(self.setting.env):
            return begun, None
        walk_key = jax.random.fold_in(jax.random.fold_in(key, PREVIEW), visit)
        return begun, preview(self.setting, begun, task, walk_key)

    def _compile_chunk(self, iterations: int) -> Program[Any]:
        return self.lanes.compile(
            lambda agent, task: device.chunk(
                self.setting, iterations, agent, task, self.params, self.labels
            )
        )

    def _iterate_agent(self, given: tuple[Agent, Any], task: TaskData) -> Any:
        """Learn from one rollout and memories, if there are any."""
        (agent, recalled), replay_term = given, None
        if recalled is not None:
            pipeline = self._sees_placed(agent)
            replay_term = device.replay_loss(
                self.setting, agent.method, pipeline, recalled
            )
        return device.iterate(self.setting, task, agent.method, agent.live, replay_term)

    def _next_phase_of_agent(self, agent: Agent, _: Any) -> Agent:
        return device.next_phase(self.setting, agent)

    def _review_agent(
        self, agent: tuple[Agent, Samples], shared: tuple[TaskData, Int[Array, ""]]
    ) -> Any:
        (agent_now, experience), (task, part) = agent, shared
        method = self.setting.method
        pipeline = self._sees(agent_now, task)
        if method.traits.replay is not None:
            pipeline = self._sees_placed(agent_now)

        def network_of(trainable: Any, key: PRNGKey) -> Network:
            return pipeline(method.gradient_network(agent_now.method, trainable, key))

        return device.accumulate_gradient(
            self.setting, agent_now, network_of, experience, part
        )

    def _sees(self, agent: Agent, task: TaskData) -> InputPipeline:
        """Return what makes a network look at a task's observations."""
        return partial(device.seeing, self.setting, task)

    def _sees_placed(self, agent: Agent) -> InputPipeline:
        """Return what makes a network look at observations of any task."""

        def pipeline(network: Network) -> Network:
            def apply_network(observation: WithTask) -> Any:
                task = self._task_data(observation.task)
                return self._sees(agent, task)(network)(observation.seen)

            return apply_network

        return pipeline

    def _end_agent(self, agent: Agent, _: Any) -> BetweenTasks:
        return device.rest(self.setting, agent)

    def _export_agent(self, agent: Agent, _: Any) -> Mapping[str, Array]:
        return self.setting.method.export(agent.method, agent.live.trainable)

    def init(self) -> BetweenTasks:
        """Return each agent before its first task."""
        return self._init(self._keys, ())

    @property
    def evaluators(self) -> int:
        """How many chunks may be judged at a time, and lost if the run is killed."""
        return 1

    def check(self) -> None:
        """Find settings that cannot be, without computing anything."""
        self._init.shapes(self._keys, ())

    def agents_shapes(self, visit: int, learned: int) -> Agent:
        """Return the shapes of all agents in a visit, having learned so many tasks."""
        resting = self._init.shapes(self._keys, ())
        return self._begin.shapes(*self._at_start(resting, visit, learned))[0]

    def prepare(
        self, visit: int, learned: int, iterations: Iterable[int], learned_then: int
    ) -> None:
        """Compile what a visit needs, with chunks of so many iterations.

        Called in another thread while the visit before is trained.
        """
        resting = self._init.shapes(self._keys, ())
        start = self._at_start(resting, visit, learned)
        self._begin.prepare(*start)
        agents = self._begin.shapes(*start)[0]
        self._prepare_training(agents, visit, iterations)
        self._export.prepare(agents, ())
        kept = self._resize(learned_then).shapes(agents.method, ())
        self._end.prepare(Agent(kept, agents.live), ())

    def _prepare_training(
        self, agents: Agent, visit: int, iterations: Iterable[int]
    ) -> None:
        for number in set(iterations):
            self._chunk(number).prepare(agents, self.task(visit))

    def _at_start(
        self, resting: BetweenTasks, visit: int, learned: int
    ) -> tuple[Any, Any]:
        """Return what a visit begins with, as shapes."""
        state = self._resize(learned).shapes(resting.method, ())
        shared = (jnp.asarray(visit, jnp.int32), self.task(visit))
        return (resting._replace(method=state), self._keys), shared

    def fixed(self, state: Any) -> Mapping[str, np.ndarray]:
        """Return what never changes in each agent, from the method's state."""
        describe = self.lanes.compile(lambda s, _: self.setting.method.fixed(s))
        return self.lanes.fetch(describe(state, ()))

    def begin(
        self, resting: BetweenTasks, visit: int, learned: int
    ) -> tuple[Agent, Preview | None]:
        """Put all agents at the start of a visit, having learned so many tasks.

        Also return what they would do there, if the environment can tell.
        """
        if self.memory is not None:
            self.memory.begin_visit()
        resting = resting._replace(method=self._resize(learned)(resting.method, ()))
        shared = (jnp.asarray(visit, jnp.int32), self.task(visit))
        return self._begin((resting, self._keys), shared)

    def task_of(self, visit: int) -> int:
        """Return the index of the task of a visit."""
        return self._curriculum.visits[visit]

    def task(self, visit: int) -> TaskData:
        """Return the task of a visit."""
        return self.task_data(self.task_of(visit))

    def _task_data(self, index: int | Int[Array, ""]) -> TaskData:
        """Return a task of the curriculum."""
        params = jax.tree.map(lambda leaf: leaf[index], self.params)
        number = jnp.asarray(index, jnp.int32)
        tasks = range(len(self._curriculum.tasks))
        each = jnp.asarray([*map(self._curriculum.iterations_of, tasks)], jnp.int32)
        return TaskData(number, self.labels[index], params, each[index])

    def chunk(
        self, agents: Agent, visit: int, iterations: int
    ) -> tuple[Agent, ChunkResult]:
        """Train all agents for some iterations and evaluate them."""
        live, result = self._chunk(iterations)(agents, self.task(visit))
        return Agent(agents.method, live), self.lanes.fetch(result)

    def evaluate(self, agents: Agent, protocol: Evaluation) -> np.ndarray:
        """Play every task with all agents, `[agent, task, episode]`."""
        setting = replace(self.setting, protocol=protocol)
        play = self.lanes.compile(
            lambda agent, _: device.evaluate_agent(
                setting, agent, self.params, self.labels
            )
        )
        return np.asarray(self.lanes.fetch(play(agents, ())))

    def film(self, agents: Agent, which: int, task: int, greedy: bool) -> Film:
        """Play one episode of a task with one agent, and draw each step."""
        agent = self.lanes.pick(agents, which)
        key = jax.random.key(self._seeds[which])
        return play_film(self.setting, agent, self.task_data(task), greedy, key)

    def spaces_of(self, task: int) -> tuple[Any, Any]:
        """Return what a task shows, and what actions it takes."""
        return self.setting.env.observation_space, self.setting.env.action_space

    def resume_worlds(self, visit: int, saved: Mapping[str, np.ndarray] | None) -> None:
        """Bring environments outside JAX back to where they were."""

    def close(self) -> None:
        """End environments outside JAX, and finish writing memories."""
        if self.memory is not None:
            self.memory.close()

    def next_phase(self, agents: Agent) -> Agent:
        """Change all agents over to the next phase of their visit."""
        return self._next_phase(agents, ())

    def experience_shapes(self, agents: Agent, visit: int, iterations: int) -> Any:
        """Return the shapes of what so many iterations learn from."""
        _, result = self._chunk(iterations).shapes(agents, self.task(visit))
        return self.lanes.shapes_of_agents(result.experience)

    def kept_shapes(self, agents: Agent, visit: int) -> ReplayRecord:
        """Return the shapes of what may be remembered of a rollout of all agents."""
        return self._iterate.shapes((agents, None), self.task(visit))[2]

    def kept_form(self, agents: Agent) -> ReplayRecord:
        """Return the shapes of one of its unrolls."""

        def one(leaf: Any) -> Any:
            return jax.ShapeDtypeStruct((leaf.shape[0], *leaf.shape[2:]), leaf.dtype)

        kept = self.lanes.shapes_of_agents(self.kept_shapes(agents, 0))
        return jax.tree.map(one, kept)

    def rollouts_of(self, batches: int) -> int:
        """Return how many rollouts so many batches are cut from, at least one."""
        learner = self.setting.learner
        return max(1, round(batches / learner.batches_per_rollout))

    def _recalled_shapes(self, agents: Agent, visit: int) -> Any:
        """Return the shapes of memories for an update; None if it needs none."""
        replay = self.setting.method.traits.replay
        number = replay and replay.unrolls(self.setting.learner.num_envs)
        if not number:
            return None

        def render_frame(leaf: Any) -> Any:
            shape = (leaf.shape[0], number, *leaf.shape[2:])
            return jax.ShapeDtypeStruct(shape, leaf.dtype)

        kept = jax.tree.map(render_frame, self.kept_shapes(agents, visit))
        return kept, jax.ShapeDtypeStruct(kept.task.shape, np.bool_)

    def _recalled(self) -> Any:
        """Return memories for an update, on the devices; None if it needs none."""
        replay = self.setting.method.traits.replay
        if self.memory is None or replay is None or not replay.share:
            return None
        return self.lanes.place(self.memory.sample())

    def accumulate_gradient(
        self, agents: Agent, visit: int, part: int, experience: Any
    ) -> Agent:
        """Let all agents look back on a part of the visit's experience."""
        shared = (self.task(visit), jnp.asarray(part, jnp.int32))
        state = self._review((agents, self.lanes.place(experience)), shared)
        return Agent(state, agents.live)

    def export(self, agents: Agent) -> Mapping[str, np.ndarray]:
        """Return what the visit leaves on disk."""
        return self.lanes.fetch(self._export(agents, ()))

    def end(self, agents: Agent, learned: int) -> BetweenTasks:
        """Finish a visit with room for so many learned tasks."""
        state = self._resize(learned)(agents.method, ())
        return self._end(Agent(state, agents.live), ())


def _keys(seeds: tuple[int, ...]) -> Key[Array, " agents"]:
    return jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))
