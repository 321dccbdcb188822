"""Evaluation on the device: play episodes on every task of the curriculum."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from personae.curricula import Evaluation
from personae.envs.contract import within_space
from personae.rollouts.device import DeviceActor
from personae.rollouts.task_data import TaskData
from personae.types import Network, Observation, PRNGKey


class EpisodeMeasures(NamedTuple):
    """The measures of episodes."""

    returns: Float[Array, "*tasks episodes"]
    """Undiscounted returns."""
    success: Float[Array, "*tasks episodes"] | None
    """Success of each episode, 1 or 0, if that is measured."""


class Playing(NamedTuple):
    """Episodes in progress."""

    key: PRNGKey
    states: PyTree[Array]
    observations: Observation
    ended: Bool[Array, " episodes"]
    returns: Float[Array, " episodes"]
    succeeded: Bool[Array, " episodes"] | None


def evaluate(
    actor: DeviceActor,
    protocol: Evaluation,
    policy_of: Callable[[TaskData], Network],
    tasks: TaskData,
    key: PRNGKey,
) -> EpisodeMeasures:
    """Play episodes on tasks that are stacked along a leading axis.

    A greedy policy plays a deterministic environment the same way each time, so there
    one episode is played and stands for all.

    Args:
        actor: The environment and the settings to act in it with.
        protocol: How many episodes, and whether actions are greedy.
        policy_of: Gives the network of a task, for observations as they are.
        tasks: The tasks to play.
        key: Randomness of environments and actions.
    """
    same_each_time = actor.env.deterministic and protocol.greedy
    # Ten equal episodes would cost ten times as much and tell nothing more.
    episodes = 1 if same_each_time else protocol.episodes

    def evaluate_task(task: TaskData, key: PRNGKey) -> EpisodeMeasures:
        return play(actor, protocol.greedy, policy_of(task), task, episodes, key)

    number = tasks.position.size
    # Tasks share shapes, so one program plays all of them side by side.
    measures = jax.vmap(evaluate_task)(tasks, jax.random.split(key, number))
    return jax.tree.map(
        lambda values: jnp.broadcast_to(values, (number, protocol.episodes)), measures
    )


def play(
    actor: DeviceActor,
    greedy: bool,
    network: Network,
    task: TaskData,
    episodes: int,
    key: PRNGKey,
) -> EpisodeMeasures:
    """Play episodes side by side until the last has ended."""
    start_key, loop_key = jax.random.split(key)
    states, observations = actor.reset(task, start_key, episodes)

    def still_playing(playing: Playing) -> Bool[Array, ""]:
        return jnp.any(~playing.ended)

    def step(playing: Playing) -> Playing:
        key, act_key, env_key = jax.random.split(playing.key, 3)
        policy, _ = jax.vmap(network)(playing.observations)
        actions = policy.mode() if greedy else policy.sample(act_key)
        states, new = jax.vmap(actor.env.step, (None, 0, 0, 0))(
            task.params,
            playing.states,
            within_space(actor.env.action_space, actions),
            jax.random.split(env_key, episodes),
        )
        running, succeeded = ~playing.ended, playing.succeeded
        if succeeded is not None and new.success is not None:
            succeeded = succeeded | (new.success.astype(bool) & running)
        return Playing(
            key,
            states,
            actor.attach_previous(new.observation, actions, new.reward),
            playing.ended | new.terminated | new.truncated,
            # Finished episodes are stepped on with the others, but no longer count.
            playing.returns + jnp.where(playing.ended, 0, new.reward),
            succeeded,
        )

    none_ended = jnp.zeros(episodes, bool)
    start = Playing(
        loop_key,
        states,
        observations,
        none_ended,
        jnp.zeros(episodes),
        none_ended if actor.by_success else None,
    )
    # A while loop, not a scan: most episodes end long before the time limit.
    end = jax.lax.while_loop(still_playing, step, start)
    success = end.succeeded
    return EpisodeMeasures(
        end.returns, None if success is None else success.astype(jnp.float32)
    )
