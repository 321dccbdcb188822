"""Evaluation: play episodes on every task of the curriculum, seen or not."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from personae.backbones.encoder import Encoder
from personae.curricula import Evaluation
from personae.envs.contract import Environment, Params, within_space
from personae.types import Network, PRNGKey


def evaluate(
    env: Environment,
    encoder: Encoder,
    protocol: Evaluation,
    policy_of: Callable[[Int[Array, ""]], Network],
    params: Params,
    labels: Int[Array, " tasks"],
    key: PRNGKey,
) -> Float[Array, "tasks episodes"]:
    """Return the undiscounted return of each episode on each task.

    A greedy policy plays a deterministic environment the same way each time, so there
    one episode is played and stands for all.
    """
    same_each_time = env.deterministic and protocol.greedy
    episodes = 1 if same_each_time else protocol.episodes

    def evaluate_task(
        task: Int[Array, ""], params: Params, label: Int[Array, ""], key: PRNGKey
    ) -> Float[Array, " episodes"]:
        return play(
            env, encoder, protocol.greedy, policy_of(task), params, label, episodes, key
        )

    keys = jax.random.split(key, labels.size)
    returns = jax.vmap(evaluate_task)(jnp.arange(labels.size), params, labels, keys)
    return jnp.broadcast_to(returns, (labels.size, protocol.episodes))


def play(
    env: Environment,
    encoder: Encoder,
    greedy: bool,
    network: Network,
    params: Params,
    label: Int[Array, ""],
    episodes: int,
    key: PRNGKey,
) -> Float[Array, " episodes"]:
    """Play episodes side by side until the last has ended; return their returns."""
    start_key, loop_key = jax.random.split(key)
    states, observations = jax.vmap(env.reset, (None, 0))(
        params, jax.random.split(start_key, episodes)
    )

    def still_playing(carry: Any) -> Bool[Array, ""]:
        return jnp.any(~carry[3])

    def step(carry: Any) -> Any:
        key, states, observations, ended, returns = carry
        key, act_key, env_key = jax.random.split(key, 3)
        inputs = jax.vmap(encoder, (0, None))(observations, label)
        policy, _ = jax.vmap(network)(inputs)
        actions = policy.mode() if greedy else policy.sample(act_key)
        states, new = jax.vmap(env.step, (None, 0, 0, 0))(
            params,
            states,
            within_space(env.action_space, actions),
            jax.random.split(env_key, episodes),
        )
        returns = returns + jnp.where(ended, 0, new.reward)
        ended = ended | new.terminated | new.truncated
        return key, states, new.observation, ended, returns

    none_ended = jnp.zeros(episodes, bool)
    carry = (loop_key, states, observations, none_ended, jnp.zeros(episodes))
    return jax.lax.while_loop(still_playing, step, carry)[4]
