"""Fully connected actor-critic networks (the paper's network tables)."""

import itertools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.backbones.heads import Head, make_head
from personae.types import Distribution, PRNGKey, Scalar


def linear_layers(
    inputs: int, hidden: Sequence[int], use_bias: bool, keys: Sequence[PRNGKey]
) -> tuple[eqx.nn.Linear, ...]:
    """Return fully connected layers, one after another."""
    sizes = itertools.pairwise([inputs, *hidden])
    return tuple(
        eqx.nn.Linear(fan_in, fan_out, use_bias, key=key)
        for (fan_in, fan_out), key in zip(sizes, keys, strict=True)
    )


class SharedMLP(eqx.Module):
    """One ReLU trunk with an actor and a critic head (CT-graph, Minigrid)."""

    trunk: tuple[eqx.nn.Linear, ...]
    actor: Head
    critic: eqx.nn.Linear

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        action_space: gym.Space[Any],
        use_bias: bool,
        key: PRNGKey,
    ):
        actor_key, critic_key, *trunk_keys = jax.random.split(key, 2 + len(hidden))
        self.trunk = linear_layers(inputs, hidden, use_bias, trunk_keys)
        features = [inputs, *hidden][-1]
        self.actor = make_head(features, action_space, use_bias, actor_key)
        self.critic = eqx.nn.Linear(features, 1, use_bias, key=critic_key)

    def __call__(
        self, observation: Float[Array, " inputs"]
    ) -> tuple[Distribution, Scalar]:
        """Return the policy and the value of one observation."""
        features = observation
        for layer in self.trunk:
            features = jax.nn.relu(layer(features))
        return self.actor(features), jnp.squeeze(self.critic(features), -1)


class SeparateMLP(eqx.Module):
    """Actor and critic with tanh bodies of their own (Continual World)."""

    actor_body: tuple[eqx.nn.Linear, ...]
    critic_body: tuple[eqx.nn.Linear, ...]
    actor: Head
    critic: eqx.nn.Linear

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        action_space: gym.Space[Any],
        use_bias: bool,
        key: PRNGKey,
    ):
        actor_key, critic_key, *keys = jax.random.split(key, 2 + 2 * len(hidden))
        self.actor_body = linear_layers(inputs, hidden, use_bias, keys[::2])
        self.critic_body = linear_layers(inputs, hidden, use_bias, keys[1::2])
        features = [inputs, *hidden][-1]
        self.actor = make_head(features, action_space, use_bias, actor_key)
        self.critic = eqx.nn.Linear(features, 1, use_bias, key=critic_key)

    def __call__(
        self, observation: Float[Array, " inputs"]
    ) -> tuple[Distribution, Scalar]:
        """Return the policy and the value of one observation."""
        acting = valuing = observation
        for layer in self.actor_body:
            acting = jnp.tanh(layer(acting))
        for layer in self.critic_body:
            valuing = jnp.tanh(layer(valuing))
        return self.actor(acting), jnp.squeeze(self.critic(valuing), -1)
