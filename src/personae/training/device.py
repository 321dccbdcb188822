"""Training on JAX environments: one chunk of iterations is one compiled program.

Everything here is written for one agent; `programs.py` maps it over the agent axis and
compiles it. A chunk is the iterations up to an evaluation, and the evaluation: long
enough to be fast, short enough for progress, checkpoints and Ctrl-C.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from personae.backbones.inputs import Encoder
from personae.curricula.spec import Evaluation
from personae.envs.base import Environment, Params, within_space
from personae.learners.base import Learner
from personae.methods.base import Method
from personae.training.evaluate import evaluate
from personae.types import Network, PRNGKey, Rollout, Transition


@dataclass(frozen=True)
class Setting:
    """What is fixed for a whole run; programs close over it."""

    env: Environment
    encoder: Encoder
    method: Method
    learner: Learner
    protocol: Evaluation


class TaskData(NamedTuple):
    """The task being trained, as data, so that one program serves all tasks."""

    number: Int[Array, ""]
    """Index of the task in the curriculum."""
    label: Int[Array, ""]
    params: Params


class Worlds(NamedTuple):
    """The environments of one agent, side by side."""

    states: PyTree[Array]
    inputs: Float[Array, "envs *inputs"]
    """What each shows now, encoded for the network."""
    returns: Float[Array, " envs"]
    """Reward collected in each running episode."""


class Live(NamedTuple):
    """What changes while a task is trained."""

    trainable: PyTree[Array]
    learner: PyTree[Array]
    worlds: Worlds
    key: PRNGKey


class Agent(NamedTuple):
    """All there is of an agent: the method's state changes between tasks only."""

    method: PyTree[Array]
    live: Live


class Ended(NamedTuple):
    """Which episodes ended at each step, and what they had collected."""

    here: Bool[Array, "..."]
    returns: Float[Array, "..."]


class ChunkResult(NamedTuple):
    """What a chunk reports: metrics `[iteration]`, returns `[task, episode]`."""

    metrics: Mapping[str, Array]
    evaluation: Float[Array, "..."]


def begin(setting: Setting, state: Any, task: TaskData, key: PRNGKey) -> Agent:
    """Put an agent at the start of a task, with fresh environments and optimiser."""
    method_key, env_key, run_key = jax.random.split(key, 3)
    state = setting.method.begin_task(state, task.number, method_key)
    trainable = setting.method.trainable(state)
    num_envs = setting.learner.num_envs
    states, observations = jax.vmap(setting.env.reset, (None, 0))(
        task.params, jax.random.split(env_key, num_envs)
    )
    inputs = jax.vmap(setting.encoder, (0, None))(observations, task.label)
    worlds = Worlds(states, inputs, jnp.zeros(num_envs))
    live = Live(trainable, setting.learner.init(trainable), worlds, run_key)
    return Agent(state, live)


def collect(
    setting: Setting, network: Network, task: TaskData, worlds: Worlds, key: PRNGKey
) -> tuple[Worlds, Rollout, Ended]:
    """Act for one rollout; episodes that end are started anew at once."""
    env, learner = setting.env, setting.learner
    encode = jax.vmap(setting.encoder, (0, None))

    def step(worlds: Worlds, key: PRNGKey) -> tuple[Worlds, tuple[Transition, Ended]]:
        act_key, env_key, reset_key = jax.random.split(key, 3)
        policy, value = jax.vmap(network)(worlds.inputs)
        action = policy.sample(act_key)
        states, new = jax.vmap(env.step, (None, 0, 0, 0))(
            task.params,
            worlds.states,
            within_space(env.action_space, action),
            jax.random.split(env_key, learner.num_envs),
        )
        ended = new.terminated | new.truncated
        reward = new.reward
        if learner.bootstrap_truncated:
            # The value of what was cut off joins the reward; the step itself ends.
            _, cut_value = jax.vmap(network)(encode(new.observation, task.label))
            cut = new.truncated & ~new.terminated
            reward += learner.discount * jnp.where(cut, cut_value, 0)
        started = jax.vmap(env.reset, (None, 0))(
            task.params, jax.random.split(reset_key, learner.num_envs)
        )
        states, observation = _where(ended, started, (states, new.observation))
        total = worlds.returns + new.reward
        log_prob = policy.log_prob(action)
        transition = Transition(worlds.inputs, action, log_prob, value, reward, ended)
        inputs = encode(observation, task.label)
        worlds = Worlds(states, inputs, jnp.where(ended, 0, total))
        return worlds, (transition, Ended(ended, jnp.where(ended, total, 0)))

    keys = jax.random.split(key, learner.rollout_length)
    worlds, (steps, ended) = jax.lax.scan(step, worlds, keys)
    return worlds, Rollout(steps, worlds.inputs), ended


def _where(condition: Array, yes: PyTree[Array], no: PyTree[Array]) -> PyTree[Array]:
    def select(a: Array, b: Array) -> Array:
        shape = condition.shape + (1,) * (a.ndim - condition.ndim)
        return jnp.where(condition.reshape(shape), a, b)

    return jax.tree.map(select, yes, no)


def iterate(
    setting: Setting, task: TaskData, state: Any, live: Live
) -> tuple[Live, dict[str, Array]]:
    """Collect one rollout and learn from it."""
    method = setting.method
    key, network_key, act_key, update_key = jax.random.split(live.key, 4)
    network = method.network(state, live.trainable, network_key)
    worlds, rollout, ended = collect(setting, network, task, live.worlds, act_key)
    learner_state, trainable, metrics = setting.learner.update(
        live.learner,
        live.trainable,
        lambda trainable, key: method.network(state, trainable, key),
        lambda trainable: method.penalty(state, trainable),
        rollout,
        update_key,
    )
    live = Live(trainable, learner_state, worlds, key)
    # A score that is not a number masks its weight and leaves the loss finite, so the
    # trainable itself is watched too.
    watched = {"return": _training_return(ended), "trainable_norm": _norm(trainable)}
    return live, {**watched, **metrics}


def _norm(tree: PyTree[Array]) -> Float[Array, ""]:
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))


def _training_return(ended: Ended) -> Float[Array, ""]:
    """Average the episodes that ended, first per environment, then over environments.

    As published: an environment in which no episode ended counts as 0.
    """
    episodes = jnp.sum(ended.here, axis=0)
    return jnp.mean(jnp.sum(ended.returns, axis=0) / jnp.maximum(episodes, 1))


def chunk(
    setting: Setting,
    iterations: int,
    agent: Agent,
    task: TaskData,
    all_params: Params,
    labels: Int[Array, " tasks"],
) -> tuple[Live, ChunkResult]:
    """Train for some iterations, then evaluate all tasks."""
    state = agent.method
    live, metrics = jax.lax.scan(
        lambda live, _: iterate(setting, task, state, live),
        agent.live,
        length=iterations,
    )
    key, evaluation_key = jax.random.split(live.key)
    agent = Agent(state, live._replace(key=evaluation_key))
    returns = evaluate_agent(setting, agent, all_params, labels)
    return live._replace(key=key), ChunkResult(metrics, returns)


def evaluate_agent(
    setting: Setting, agent: Agent, all_params: Params, labels: Int[Array, " tasks"]
) -> Float[Array, "tasks episodes"]:
    """Evaluate an agent, as it is now, on every task."""
    return evaluate(
        setting.env,
        setting.encoder,
        setting.protocol,
        partial(setting.method.policy, agent.method, agent.live.trainable),
        all_params,
        labels,
        agent.live.key,
    )
