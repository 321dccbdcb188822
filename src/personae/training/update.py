"""Training on JAX environments: one chunk of iterations is one compiled program.

Everything here is written for one agent; `programs.py` maps it over the agent axis and
compiles it. A chunk is the iterations up to an evaluation, and the evaluation: long
enough to be fast, short enough for progress, checkpoints and Ctrl-C.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from personae.backbones.batching import apply_network
from personae.backbones.encoder import Encoder
from personae.curricula.curriculum import Evaluation
from personae.envs.contract import Params, within_space
from personae.learners.contract import (
    Learner,
    NetworkOf,
    ReplayBatch,
    ReplayTerm,
    Samples,
    by_env,
)
from personae.methods.contract import InputPipeline, Method
from personae.rollouts.device_evaluation import evaluate
from personae.runs.replay import ReplayRecord
from personae.types import (
    Network,
    Observation,
    PolicyAndValue,
    PRNGKey,
    ReplayedSteps,
    Rollout,
    Transition,
    WithTask,
)


@dataclass(frozen=True)
class AgentSpec:
    """What is fixed for a whole run; programs close over it."""

    env: Any
    """The environment, or the spaces of those that live elsewhere."""
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
    iterations: Int[Array, ""]
    """How many a visit to it has."""


class Worlds(NamedTuple):
    """The environments of one agent, side by side."""

    states: PyTree[Array]
    observations: Observation
    """What each shows now."""
    returns: Float[Array, " envs"]
    """Reward collected in each running episode."""


class TrainState(NamedTuple):
    """What changes while a task is trained."""

    trainable: PyTree[Array]
    learner_state: PyTree[Array]
    envs: Any
    """Its environments, or what is kept of those that live elsewhere."""
    key: PRNGKey
    statistics: PyTree[Array]
    """What normalises inputs, if anything does."""
    iteration: Int[Array, ""]
    """How many of the visit are over."""

    def progress(self, task: TaskData) -> Float[Array, ""]:
        """Return the share of the visit that is over."""
        return self.iteration / task.iterations


class Agent(NamedTuple):
    """All there is of an agent: the method's state changes between tasks only."""

    method: PyTree[Array]
    live: TrainState


class Ended(NamedTuple):
    """Which episodes ended at each step, and what they had collected."""

    here: Bool[Array, "..."]
    returns: Float[Array, "..."]


class Played(NamedTuple):
    """What episodes brought, `[agent, task, episode]`."""

    returns: Any
    success: np.ndarray | None
    """Which succeeded, if that is what counts."""
    unseen: np.ndarray | None
    """What counts on what was never trained on, if there is such."""


class ChunkResult(NamedTuple):
    """What a chunk reports: metrics `[iteration]`, returns `[task, episode]`."""

    metrics: Mapping[str, Array]
    evaluation: Any
    """Returns; None until they have been played."""
    experience: Samples | None
    """What was learned from, `[iteration, ...]`, if the method will look back on it."""
    memory: Mapping[str, np.ndarray] | None = None
    """What brings memories back, if there are any."""
    worlds: Mapping[str, np.ndarray] | None = None
    """What environments outside JAX are brought back with."""
    success: Float[np.ndarray, "..."] | None = None
    """Which episodes succeeded, if that is what counts."""
    unseen: Float[np.ndarray, "..."] | None = None
    """What counts, on what was never trained on, `[task, episode]`, if it is tested."""

    actors: Mapping[str, list[float]] | None = None
    """How each did that acts on another machine, if any does."""
    play: Callable[[], Played] | None = None
    """Plays the episodes of the evaluation, if they are still to be played."""

    def judged(self) -> "ChunkResult":
        """Return the same with its evaluation."""
        if self.play is None:
            return self
        returns, success, unseen = self.play()
        return self._replace(
            evaluation=returns, success=success, unseen=unseen, play=None
        )

    @property
    def scores(self) -> Float[np.ndarray, "agents tasks"]:
        """What agents are judged by: the mean of each task's episodes."""
        counted = self.evaluation if self.success is None else self.success
        return np.asarray(counted).mean(-1)

    @property
    def training_scores(self) -> Float[np.ndarray, "agents iterations"]:
        """The same in training, at each iteration."""
        return np.asarray(self.metrics.get("success", self.metrics["return"]))


class BetweenTasks(NamedTuple):
    """An agent between two tasks."""

    method: PyTree[Array]
    learner: PyTree[Array] | None
    """The optimiser's state, if it goes on."""
    statistics: PyTree[Array] = None
    """What normalises inputs, if anything does."""


def rest(setting: AgentSpec, agent: Agent) -> BetweenTasks:
    """Finish a task."""
    method, live = setting.method, agent.live
    state = method.end_task(agent.method, live.trainable, live.key)
    learner = live.learner_state if method.traits.keeps_optimiser else None
    return BetweenTasks(state, learner, live.statistics)


def begin(
    setting: AgentSpec, resting: BetweenTasks, task: TaskData, key: PRNGKey
) -> Agent:
    """Put an agent at the start of a task, with fresh environments."""
    method_key, env_key, run_key = jax.random.split(key, 3)
    num_envs = setting.learner.num_envs
    states, observations = jax.vmap(setting.env.reset, (None, 0))(
        task.params, jax.random.split(env_key, num_envs)
    )
    worlds = Worlds(states, observations, jnp.zeros(num_envs))
    return begin_with(setting, resting, task, worlds, method_key, run_key)


def begin_with(
    setting: AgentSpec,
    resting: BetweenTasks,
    task: TaskData,
    worlds: Any,
    method_key: PRNGKey,
    run_key: PRNGKey,
) -> Agent:
    """Put an agent at the start of a task, in environments that are there."""
    state = setting.method.begin_task(resting.method, task.number, method_key)
    trainable = setting.method.trainable(state)
    learner = resting.learner
    if learner is None:
        learner = setting.learner.init(trainable)
    none_yet = jnp.zeros((), jnp.int32)
    live = TrainState(trainable, learner, worlds, run_key, resting.statistics, none_yet)
    return Agent(state, live)


def next_phase(setting: AgentSpec, agent: Agent) -> Agent:
    """Change over to the next phase of a task, in the same environments."""
    method, live = setting.method, agent.live
    key, phase_key = jax.random.split(live.key)
    state = method.next_phase(agent.method, live.trainable, phase_key)
    trainable = method.trainable(state)
    learner = live.learner_state
    if not method.traits.keeps_optimiser:
        learner = setting.learner.init(trainable)
    live = live._replace(trainable=trainable, learner_state=learner, key=key)
    return Agent(state, live)


def collect(
    setting: AgentSpec, network: Network, task: TaskData, worlds: Worlds, key: PRNGKey
) -> tuple[Worlds, Rollout, Ended]:
    """Act for one rollout; episodes that end are started anew at once."""
    env, learner = setting.env, setting.learner

    def step(worlds: Worlds, key: PRNGKey) -> tuple[Worlds, tuple[Transition, Ended]]:
        act_key, env_key, reset_key = jax.random.split(key, 3)
        policy, value = jax.vmap(network)(worlds.observations)
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
            _, cut_value = jax.vmap(network)(new.observation)
            cut = new.truncated & ~new.terminated
            reward += learner.discount * jnp.where(cut, cut_value, 0)
        started = jax.vmap(env.reset, (None, 0))(
            task.params, jax.random.split(reset_key, learner.num_envs)
        )
        states, observation = _where(ended, started, (states, new.observation))
        total = worlds.returns + new.reward
        log_prob = policy.log_prob(action)
        seen = worlds.observations
        transition = Transition(seen, action, log_prob, value, reward, ended)
        worlds = Worlds(states, observation, jnp.where(ended, 0, total))
        return worlds, (transition, Ended(ended, jnp.where(ended, total, 0)))

    keys = jax.random.split(key, learner.rollout_length)
    worlds, (steps, ended) = jax.lax.scan(step, worlds, keys)
    return worlds, Rollout(steps, worlds.observations), ended


def _where(condition: Array, yes: PyTree[Array], no: PyTree[Array]) -> PyTree[Array]:
    def select(a: Array, b: Array) -> Array:
        shape = condition.shape + (1,) * (a.ndim - condition.ndim)
        return jnp.where(condition.reshape(shape), a, b)

    return jax.tree.map(select, yes, no)


def iterate(
    setting: AgentSpec,
    task: TaskData,
    state: Any,
    live: TrainState,
    replay_term: ReplayTerm | None = None,
) -> tuple[TrainState, dict[str, Array], Samples | ReplayRecord]:
    """Collect one rollout and learn from it; also return what is kept of it."""
    method = setting.method
    key, network_key, act_key, update_key = jax.random.split(live.key, 4)
    network_of = partial(network_on, setting, task, state)
    network = network_of(live.trainable, network_key)
    worlds, rollout, ended = collect(setting, network, task, live.envs, act_key)
    learner_state, trainable, metrics, samples = setting.learner.update(
        live.learner_state,
        live.trainable,
        network_of,
        lambda trainable: method.penalty(state, trainable),
        rollout,
        live.progress(task),
        update_key,
        replay_term,
    )
    kept = kept_of(setting, network, task, rollout) if method.traits.replay else samples
    live = live._replace(
        trainable=trainable,
        learner_state=learner_state,
        envs=worlds,
        key=key,
        iteration=live.iteration + 1,
    )
    # A score that is not a number masks its weight and leaves the loss finite, so the
    # trainable itself is watched too.
    watched = {"return": _training_return(ended), "trainable_norm": norm(trainable)}
    return live, {**watched, **metrics}, kept


def kept_of(
    setting: AgentSpec, network: Network, task: TaskData, rollout: Rollout
) -> ReplayRecord:
    """Return what may be remembered of a rollout."""
    unrolls, policy = by_env(rollout), None
    replay = setting.method.traits.replay
    if replay is not None and replay.with_policy:
        policy, _ = apply_network(network, unrolls.steps.observation, axes=2)
    number = setting.learner.num_envs
    return ReplayRecord(unrolls, policy, jnp.broadcast_to(task.number, (number,)))


def placed(kept: ReplayRecord) -> Rollout:
    """Return unrolls whose observations say in which task they were made."""
    steps, task = kept.unrolls.steps, kept.task
    tasks = jnp.broadcast_to(task[:, None], steps.done.shape)
    steps = steps._replace(observation=WithTask(steps.observation, tasks))
    return Rollout(steps, WithTask(kept.unrolls.last_observation, task))


def replay_loss(
    setting: AgentSpec,
    state: Any,
    pipeline: InputPipeline,
    recalled: tuple[ReplayRecord, Bool[Array, " unrolls"]],
) -> ReplayTerm:
    """Return what is learned from memories; `pipeline` looks at what is `WithTask`."""
    (kept, known), method = recalled, setting.method
    replay = method.traits.replay
    assert replay is not None

    def network_of(trainable: PyTree[Array], key: PRNGKey) -> Network:
        return pipeline(method.network(state, trainable, key))

    def loss_of(
        trainable: PyTree[Array],
        steps: ReplayedSteps,
        now: PolicyAndValue,
        key: PRNGKey,
    ) -> Float[Array, " steps"]:
        return method.replay_loss(state, trainable, pipeline, steps, now, key)

    memories = ReplayBatch(placed(kept), kept.policy, known)
    return ReplayTerm(memories, network_of, loss_of, replay.off_policy)


def network_on(
    setting: AgentSpec,
    task: TaskData,
    state: Any,
    trainable: PyTree[Array],
    key: PRNGKey,
) -> Network:
    """Return what acts on a task's observations."""
    return seeing(setting, task, setting.method.network(state, trainable, key))


def seeing(setting: AgentSpec, task: TaskData, network: Network) -> Network:
    """Return a network that looks at a task's observations."""
    return lambda observation: network(setting.encoder(observation, task.label))


def norm(tree: PyTree[Array]) -> Float[Array, ""]:
    """Return the norm of all leaves together."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))


def _training_return(ended: Ended) -> Float[Array, ""]:
    """Average the episodes that ended, first per environment, then over environments.

    As published: an environment in which no episode ended counts as 0.
    """
    episodes = jnp.sum(ended.here, axis=0)
    return jnp.mean(jnp.sum(ended.returns, axis=0) / jnp.maximum(episodes, 1))


def chunk(
    setting: AgentSpec,
    iterations: int,
    agent: Agent,
    task: TaskData,
    all_params: Params,
    labels: Int[Array, " tasks"],
) -> tuple[TrainState, ChunkResult]:
    """Train for some iterations, then evaluate all tasks."""
    state, keeps = agent.method, setting.method.traits.accumulates_gradient

    def step(
        live: TrainState, _: None
    ) -> tuple[TrainState, tuple[dict[str, Array], Any]]:
        live, metrics, samples = iterate(setting, task, state, live)
        return live, (metrics, samples if keeps else None)

    live, (metrics, experience) = jax.lax.scan(step, agent.live, length=iterations)
    live, returns = judge(setting, Agent(state, live), all_params, labels)
    return live, ChunkResult(metrics, returns, experience)


def judge(
    setting: AgentSpec, agent: Agent, all_params: Params, labels: Int[Array, " tasks"]
) -> tuple[TrainState, Float[Array, "tasks episodes"]]:
    """Evaluate an agent after a chunk, with randomness that is not used again."""
    key, evaluation_key = jax.random.split(agent.live.key)
    live = agent.live._replace(key=evaluation_key)
    returns = evaluate_agent(setting, Agent(agent.method, live), all_params, labels)
    return agent.live._replace(key=key), returns


def evaluate_agent(
    setting: AgentSpec, agent: Agent, all_params: Params, labels: Int[Array, " tasks"]
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


def accumulate_gradient(
    setting: AgentSpec,
    agent: Agent,
    network_of: NetworkOf,
    experience: Samples | ReplayRecord,
    part: Array,
) -> Any:
    """Let the method look back on a part of the task's experience, batch by batch.

    Experience is what rollouts were turned into, or what is remembered of them.
    """
    method, learner, live = setting.method, setting.learner, agent.live
    replay = method.traits.replay

    def review_batch(state: Any, batch_and_key: tuple[Samples, PRNGKey]) -> Any:
        batch, key = batch_and_key
        gradient = learner.gradient(live.trainable, network_of, batch, key)
        batch_size = jax.tree.leaves(batch)[0].shape[0]
        return method.accumulate_gradient(state, gradient, batch_size), None

    def review_rollout(state: Any, samples_and_key: tuple[Samples, PRNGKey]) -> Any:
        samples, key = samples_and_key
        shuffle_key, network_key = jax.random.split(key)
        if replay is not None:
            network = network_of(live.trainable, network_key)
            samples = learner.samples(network, by_env(placed(samples)))
        batches = learner.batches(samples, shuffle_key)
        if replay is not None and replay.per_sample:
            batches = jax.tree.map(lambda x: x.reshape(-1, 1, *x.shape[2:]), batches)
        keys = jax.random.split(network_key, jax.tree.leaves(batches)[0].shape[0])
        return jax.lax.scan(review_batch, state, (batches, keys))[0], None

    rollouts = jax.tree.leaves(experience)[0].shape[0]
    keys = jax.random.split(jax.random.fold_in(live.key, part), rollouts)
    return jax.lax.scan(review_rollout, agent.method, (experience, keys))[0]
