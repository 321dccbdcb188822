"""One agent's steps of Algorithm 1 as pure functions: begin, update, look back, end.

Experience comes from the device or from the host; from here on both are treated alike.
`programs.py` and the trainers map these functions over the agents and compile them.
"""

from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from personae.backbones.batching import apply_network
from personae.learners.contract import (
    NetworkOf,
    ReplayBatch,
    ReplayTerm,
    Samples,
    by_env,
)
from personae.methods.contract import InputPipeline
from personae.rollouts.device import DeviceEnvs
from personae.rollouts.pipeline import valid_steps
from personae.rollouts.task_data import TaskData
from personae.runs.replay import ReplayRecord
from personae.training.state import Agent, AgentSpec, BetweenTasks, TrainState
from personae.types import (
    Network,
    PolicyAndValue,
    PRNGKey,
    ReplayedSteps,
    Rollout,
    WithTask,
    current_observation,
)

Sample: TypeAlias = tuple[ReplayRecord, Bool[Array, "*agents unrolls"]]
"""Unrolls from the replay store, and whether each is there yet."""


class IterationKeys(NamedTuple):
    """The randomness of one iteration."""

    following: PRNGKey
    """For the iterations after it."""
    network: PRNGKey
    act: PRNGKey
    update: PRNGKey


def iteration_keys(train: TrainState) -> IterationKeys:
    """Return the randomness of the next iteration."""
    return IterationKeys(*jax.random.split(train.key, 4))


def begin(
    spec: AgentSpec,
    between_tasks: BetweenTasks,
    task: TaskData,
    envs: DeviceEnvs | None,
    method_key: PRNGKey,
    run_key: PRNGKey,
) -> Agent:
    """Put an agent at the start of a visit."""
    state = spec.method.begin_task(
        between_tasks.method_state, task.position, method_key
    )
    trainable = spec.method.trainable(state)
    learner_state = between_tasks.learner_state
    if learner_state is None:
        # A task that brings new weights starts with a fresh optimiser.
        learner_state = spec.learner.init(trainable)
    train = TrainState(
        trainable,
        learner_state,
        envs,
        # Until an episode has ended, the floor stands for its return.
        None if envs is not None else jnp.stack([task.floor, jnp.zeros(())]),
        run_key,
        between_tasks.statistics,
        jnp.zeros((), jnp.int32),
    )
    return Agent(state, train)


def end(spec: AgentSpec, agent: Agent) -> BetweenTasks:
    """Finish a visit."""
    method, train = spec.method, agent.train
    state = method.end_task(agent.method_state, train.trainable, train.key)
    learner_state = train.learner_state if method.traits.keeps_optimiser else None
    return BetweenTasks(state, learner_state, train.statistics)


def next_phase(spec: AgentSpec, agent: Agent) -> Agent:
    """Change over to the next phase of a visit, in the same environments."""
    method, train = spec.method, agent.train
    key, phase_key = jax.random.split(train.key)
    state = method.next_phase(agent.method_state, train.trainable, phase_key)
    trainable = method.trainable(state)
    learner_state = train.learner_state
    if not method.traits.keeps_optimiser:
        learner_state = spec.learner.init(trainable)
    train = train._replace(trainable=trainable, learner_state=learner_state, key=key)
    return Agent(state, train)


def acting_network(
    spec: AgentSpec, agent: Agent, task: TaskData, key: PRNGKey
) -> Network:
    """Return the network that acts in training, for observations as they are."""
    train = agent.train
    network = spec.method.network(agent.method_state, train.trainable, key)
    return spec.pipeline.apply(network, train.statistics, task)


def policy_of(spec: AgentSpec, agent: Agent, task: TaskData) -> Network:
    """Return the network that is evaluated on a task, for observations as they are."""
    train = agent.train
    network = spec.method.policy(agent.method_state, train.trainable, task.position)
    return spec.pipeline.apply(network, train.statistics, task)


class Experience(NamedTuple):
    """A rollout of one agent, wherever it was made."""

    rollout: Rollout
    bootstrap: Float[Array, "time envs"] | None
    """Discounted values of states that a time limit cut off, if they count."""
    measures: dict[str, Float[Array, ""]]
    """The measures that are logged."""


class Updated(NamedTuple):
    """The result of one update."""

    train: TrainState
    metrics: dict[str, Array]
    samples: Samples | None
    """Samples that the method will look back on, if it does."""
    unrolls: ReplayRecord | None
    """The rollout as the replay store keeps it, if the method has one."""


def update(
    spec: AgentSpec,
    task: TaskData,
    agent: Agent,
    experience: Experience,
    keys: IterationKeys,
    replay: ReplayTerm | None = None,
) -> Updated:
    """Learn from one rollout, and from replayed experience if there is any."""
    method, state, train = spec.method, agent.method_state, agent.train
    traits, steps = method.traits, experience.rollout.steps
    valid = valid_steps(steps.done, steps.valid)
    # Rewards count at once, as the scale must be known for the first rollout.
    statistics = train.statistics.with_rewards(task.position, steps.reward, valid)
    reward = spec.pipeline.rewards_to_learn(
        statistics, task, steps.reward, experience.bootstrap
    )
    rollout = experience.rollout._replace(steps=steps._replace(reward=reward))

    def network_of(trainable: PyTree[Array], key: PRNGKey) -> Network:
        network = method.network(state, trainable, key)
        return spec.pipeline.apply(network, train.statistics, task)

    learner_state, trainable, metrics, samples = spec.learner.update(
        train.learner_state,
        train.trainable,
        network_of,
        lambda trainable: method.penalty(state, trainable),
        rollout,
        train.progress(task),
        keys.update,
        replay,
    )
    unrolls = None
    if traits.replay is not None:
        network = network_of(train.trainable, keys.network)
        unrolls = replay_record(spec, network, task, rollout)
    updated = train._replace(
        trainable=trainable,
        learner_state=learner_state,
        key=keys.following,
        # The network that acted was updated: observations count from the next rollout.
        statistics=statistics.with_observations(
            task.position, current_observation(steps.observation), valid
        ),
        iteration=train.iteration + 1,
    )
    # A score that is not a number masks its weight and leaves the loss finite, so the
    # trainable itself is watched too.
    norm = {"trainable_norm": tree_norm(trainable)}
    return Updated(
        updated,
        {**experience.measures, **norm, **metrics},
        samples if traits.accumulates_gradient else None,
        unrolls,
    )


def tree_norm(tree: PyTree[Array]) -> Float[Array, ""]:
    """Return the norm of all leaves together."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))


def replay_record(
    spec: AgentSpec, network: Network, task: TaskData, rollout: Rollout
) -> ReplayRecord:
    """Return a rollout in the form that the replay store keeps."""
    unrolls, policy = by_env(rollout), None
    replay = spec.method.traits.replay
    if replay is not None and replay.with_policy:
        policy, _ = apply_network(network, unrolls.steps.observation, axes=2)
    number = spec.learner.num_envs
    return ReplayRecord(unrolls, policy, jnp.broadcast_to(task.position, (number,)))


def with_tasks(record: ReplayRecord) -> Rollout:
    """Return unrolls whose observations carry the task that they were made in."""
    steps, task = record.unrolls.steps, record.task
    tasks = jnp.broadcast_to(task[:, None], steps.done.shape)
    steps = steps._replace(observation=WithTask(steps.observation, tasks))
    return Rollout(steps, WithTask(record.unrolls.last_observation, task))


def replay_term(
    spec: AgentSpec, state: PyTree[Array], pipeline: InputPipeline, sample: Sample
) -> ReplayTerm:
    """Return the part of the loss that replayed experience adds.

    Args:
        spec: The parts that all agents share.
        state: The method's state.
        pipeline: Makes a network take observations `WithTask`.
        sample: Unrolls from the replay store.
    """
    (record, available), method = sample, spec.method
    # Programs are built per method, so this is static.
    replay = method.traits.replay
    assert replay is not None

    def network_of(trainable: PyTree[Array], key: PRNGKey) -> Network:
        return pipeline(method.network(state, trainable, key))

    def loss_of(
        trainable: PyTree[Array],
        steps: ReplayedSteps,
        current: PolicyAndValue,
        key: PRNGKey,
    ) -> Float[Array, " steps"]:
        return method.replay_loss(state, trainable, pipeline, steps, current, key)

    batch = ReplayBatch(with_tasks(record), record.policy, available)
    return ReplayTerm(batch, network_of, loss_of, replay.off_policy)


def accumulate_gradient(
    spec: AgentSpec,
    agent: Agent,
    network_of: NetworkOf,
    experience: Samples | ReplayRecord,
    part: Array,
) -> PyTree[Array]:
    """Let the method look back on a part of the task's experience, batch by batch.

    Args:
        spec: The parts that all agents share.
        agent: The agent at the end of a visit or phase.
        network_of: Gives the network whose gradient is taken.
        experience: Samples of rollouts, or unrolls of the replay store.
        part: Number of the part, from which its randomness comes.

    Returns:
        The method's new state.
    """
    method, learner, train = spec.method, spec.learner, agent.train
    replay = method.traits.replay

    def add_batch(
        state: PyTree[Array], batch_and_key: tuple[Samples, PRNGKey]
    ) -> tuple[PyTree[Array], None]:
        batch, key = batch_and_key
        gradient = learner.gradient(train.trainable, network_of, batch, key)
        batch_size = jax.tree.leaves(batch)[0].shape[0]
        return method.accumulate_gradient(state, gradient, batch_size), None

    def add_rollout(
        state: PyTree[Array], samples_and_key: tuple[Samples, PRNGKey]
    ) -> tuple[PyTree[Array], None]:
        samples, key = samples_and_key
        shuffle_key, network_key = jax.random.split(key)
        if replay is not None:
            network = network_of(train.trainable, network_key)
            samples = learner.samples(network, by_env(with_tasks(samples)))
        batches = learner.batches(samples, shuffle_key)
        if replay is not None and replay.per_sample:
            batches = jax.tree.map(lambda x: x.reshape(-1, 1, *x.shape[2:]), batches)
        keys = jax.random.split(network_key, jax.tree.leaves(batches)[0].shape[0])
        return jax.lax.scan(add_batch, state, (batches, keys))[0], None

    rollouts = jax.tree.leaves(experience)[0].shape[0]
    # By the number of the part, so that a resumed run draws the same batches.
    keys = jax.random.split(jax.random.fold_in(train.key, part), rollouts)
    return jax.lax.scan(add_rollout, agent.method_state, (experience, keys))[0]


def gradient_network_of(
    spec: AgentSpec, state: PyTree[Array], pipeline: InputPipeline
) -> NetworkOf:
    """Return the function that gives the network whose gradient is accumulated."""

    def network_of(trainable: PyTree[Array], key: PRNGKey) -> Network:
        return pipeline(spec.method.gradient_network(state, trainable, key))

    return network_of


def task_pipeline(spec: AgentSpec, agent: Agent, task: TaskData) -> InputPipeline:
    """Return the pipeline of one task's observations."""
    return partial(spec.pipeline.apply, statistics=agent.train.statistics, task=task)
