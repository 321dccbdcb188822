"""One episode of one agent, rendered step by step, on the device or on the host."""

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple, TypeAlias

import jax
import numpy as np
from jaxtyping import PyTree, UInt8

from personae.envs.adapters.gymnasium import render_frame
from personae.envs.contract import within_space
from personae.rollouts.contract import BehaviourPolicy
from personae.rollouts.device import DeviceActor
from personae.rollouts.host_context import HostContext, HostObservation
from personae.rollouts.host_tasks import EVALUATION, episode_seed
from personae.rollouts.policies import HostPolicies
from personae.rollouts.previous_step import PreviousSteps
from personae.rollouts.task_data import TaskData
from personae.types import Env, Network, Observation, PRNGKey, TimeStep

LONGEST_FILM = 1000
"""Steps after which a film is cut."""
Frame: TypeAlias = UInt8[np.ndarray, "height width 3"]


class Film(NamedTuple):
    """One episode as pictures."""

    frames: list[Frame]
    total: float
    """The return of the episode."""
    whole: bool
    """Whether the episode ended before the film was cut."""


def film_on_device(
    actor: DeviceActor,
    policy_of: Callable[[TaskData], Network],
    task: TaskData,
    greedy: bool,
    key: PRNGKey,
) -> Film:
    """Play one episode in an environment on the device, and render each step."""
    env, network = actor.env, policy_of(task)

    # Compiled once for the whole film.
    @jax.jit
    def advance(
        state: PyTree, observations: Observation, key: PRNGKey
    ) -> tuple[PyTree, TimeStep, Observation]:
        act_key, env_key = jax.random.split(key)
        policy, _ = network(jax.tree.map(lambda leaf: leaf[0], observations))
        action = policy.mode() if greedy else policy.sample(act_key)
        own = within_space(env.action_space, action[None])[0]
        state, new = env.step(task.params, state, own, env_key)
        following = jax.tree.map(lambda leaf: leaf[None], new.observation)
        return (
            state,
            new,
            actor.attach_previous(following, action[None], new.reward[None]),
        )

    key, start_key = jax.random.split(key)
    state, first = jax.jit(env.reset)(task.params, start_key)
    observations = actor.without_previous(jax.tree.map(lambda x: x[None], first))
    frames, total = [env.render(task.params, state, np.asarray(first))], 0.0
    for step_key in jax.random.split(key, LONGEST_FILM):
        state, new, observations = advance(state, observations, step_key)
        frames.append(env.render(task.params, state, np.asarray(new.observation)))
        total += float(new.reward)
        if new.terminated or new.truncated:
            return Film(frames, total, whole=True)
    return Film(frames, total, whole=False)


def film_on_host(
    context: HostContext,
    policies: HostPolicies,
    policy: BehaviourPolicy,
    agent: int,
    index: int,
    greedy: bool,
) -> Film:
    """Play one episode of a task in an environment on the host, and render each step.

    Args:
        context: Everything that acting depends on.
        policies: Compiled calls.
        policy: The policies of all agents on the task.
        agent: The agent to film.
        index: The task.
        greedy: Whether it takes the most likely actions.
    """
    # A slice, as compiled calls expect an axis of agents.
    policy = jax.tree.map(lambda leaf: leaf[agent : agent + 1], policy)
    space = context.pipeline.encoder.previous_action_space
    previous = None if space is None else PreviousSteps(space, 1)
    act = policies.act(policy, context.table.task(index), greedy)
    spaces = context.tasks.spaces

    def choose_action(observation: np.ndarray, time: int) -> np.ndarray:
        shared: HostObservation = spaces.to_network(
            index, np.asarray(observation)[None]
        )
        if previous is not None:
            shared = previous.attach(shared)
        step = act(jax.tree.map(lambda leaf: leaf[None], shared), time)
        return np.asarray(step.action)[0]

    # The first episode of the run's own evaluations, so that the film shows it.
    seed = episode_seed(EVALUATION, context.seeds[agent], index, 0, 0)
    with closing(context.tasks.make_filmed(index)) as env:
        return _film(env, context, index, seed, previous, choose_action)


def _film(
    env: Env,
    context: HostContext,
    index: int,
    seed: int,
    previous: PreviousSteps | None,
    choose_action: Callable[[np.ndarray, int], np.ndarray],
) -> Film:
    name = context.tasks.name(index)
    observation, _ = env.reset(seed=seed)
    frames, total = [render_frame(env, name)], 0.0
    for time in range(LONGEST_FILM):
        action = choose_action(observation, time)
        own = context.tasks.spaces.to_env(index, action)[0]
        observation, reward, terminated, truncated, _ = env.step(own)
        if previous is not None:
            previous.record(action, np.array([reward]))
        frames.append(render_frame(env, name))
        total += float(reward)
        if terminated or truncated:
            return Film(frames, total, whole=True)
    return Film(frames, total, whole=False)
