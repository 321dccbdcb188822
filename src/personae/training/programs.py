"""The compiled programs of a run: everything mapped over the agent axis.

Programs are compiled again only when shapes change, that is when a method's `resize`
returns other shapes, or for a last chunk with fewer iterations.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from personae.backbones.inputs import Encoder
from personae.backbones.mlp import SharedMLP
from personae.curricula.spec import Curriculum
from personae.envs.registry import find_family
from personae.errors import UsageError
from personae.methods.base import Method
from personae.training import device
from personae.training.device import Agent, ChunkResult, Live, Setting, TaskData
from personae.types import PRNGKey

BACKBONE, LIFE = range(2)
"""Purposes of a seed's randomness: equal seeds give equal backbones and visits,
whatever the method, so that methods are compared on the same draws."""


class Programs:
    """What a run calls: each takes and returns all agents at once."""

    def __init__(self, curriculum: Curriculum, method: Method):
        families = {task.env for task in curriculum.tasks}
        if len(families) > 1:
            raise UsageError(
                f"the tasks of {curriculum.id!r} come from several environment "
                f"families ({', '.join(sorted(families))}); one is supported"
            )
        options = [task.options for task in curriculum.tasks]
        env, self._params = find_family(families.pop())(options)
        encoder = Encoder(curriculum.inputs.scale, curriculum.label_dim)
        self.setting = Setting(
            env, encoder, method, curriculum.ppo, curriculum.evaluation
        )
        self._curriculum = curriculum
        self._labels = jnp.asarray(curriculum.labels, jnp.int32)
        self._init = jax.jit(jax.vmap(self._init_agent))
        self._resize = jax.jit(self._resize_agents, static_argnums=1)
        self._begin = jax.jit(
            jax.vmap(partial(device.begin, self.setting), (0, None, 0))
        )
        self._chunk = jax.jit(self._chunk_agents, static_argnums=0)
        self._end = jax.jit(jax.vmap(self._end_agent))
        self._export = jax.jit(jax.vmap(self._export_agent))

    def _init_agent(self, key: PRNGKey) -> Any:
        setting, curriculum = self.setting, self._curriculum
        build_key, method_key = jax.random.split(jax.random.fold_in(key, BACKBONE))
        space = setting.env.observation_space
        assert isinstance(space, gym.spaces.Box)
        network = SharedMLP(
            inputs=int(np.prod(space.shape)) + curriculum.label_dim,
            hidden=curriculum.network.hidden,
            action_space=setting.env.action_space,
            use_bias=setting.method.use_bias,
            key=build_key,
        )
        return setting.method.init(network, len(curriculum.tasks), method_key)

    def _resize_agents(self, state: Any, learned: int) -> Any:
        return jax.vmap(lambda s: self.setting.method.resize(s, learned))(state)

    def _chunk_agents(
        self, iterations: int, agents: Agent, task: TaskData
    ) -> tuple[Live, ChunkResult]:
        one_agent = partial(device.chunk, self.setting, iterations)
        mapped = jax.vmap(one_agent, (0, None, None, None))
        return mapped(agents, task, self._params, self._labels)

    def _end_agent(self, state: Any, live: Live) -> Any:
        return self.setting.method.end_task(state, live.trainable, None, live.key)

    def _export_agent(self, agent: Agent) -> Mapping[str, Array]:
        return self.setting.method.export(agent.method, agent.live.trainable)

    def init(self, seeds: tuple[int, ...]) -> Any:
        """Return the method's state of each agent before its first task."""
        return self._init(_keys(seeds))

    def fixed(self, state: Any) -> Mapping[str, Array]:
        """Return what never changes in each agent."""
        return jax.vmap(self.setting.method.fixed)(state)

    def begin(
        self, state: Any, seeds: tuple[int, ...], visit: int, learned: int
    ) -> Agent:
        """Put all agents at the start of a visit, having learned so many tasks."""
        state = self._resize(state, learned)
        keys = jax.vmap(
            lambda key: jax.random.fold_in(jax.random.fold_in(key, LIFE), visit)
        )(_keys(seeds))
        return self._begin(state, self.task(visit), keys)

    def task(self, visit: int) -> TaskData:
        """Return the task of a visit."""
        index = self._curriculum.visits[visit]
        params = jax.tree.map(lambda leaf: leaf[index], self._params)
        return TaskData(jnp.asarray(index, jnp.int32), self._labels[index], params)

    def chunk(
        self, agents: Agent, visit: int, iterations: int
    ) -> tuple[Agent, ChunkResult]:
        """Train all agents for some iterations and evaluate them."""
        live, result = self._chunk(iterations, agents, self.task(visit))
        return Agent(agents.method, live), result

    def export(self, agents: Agent) -> Mapping[str, Array]:
        """Return what the visit leaves on disk."""
        return self._export(agents)

    def end(self, agents: Agent, learned: int) -> Any:
        """Finish a visit; return the method's state with so many tasks learned."""
        return self._end(self._resize(agents.method, learned), agents.live)


def _keys(seeds: tuple[int, ...]) -> Key[Array, " agents"]:
    return jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))
