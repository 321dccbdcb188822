"""Fully connected actor-critic networks (the paper's network tables)."""

import itertools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.backbones.heads import Head, make_heads
from personae.types import Distribution, PRNGKey, Scalar, Space


def linear_layers(
    inputs: int, hidden: Sequence[int], use_bias: bool, keys: Sequence[PRNGKey]
) -> tuple[eqx.nn.Linear, ...]:
    """Return fully connected layers whose sizes follow one another."""
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
        action_space: Space,
        use_bias: bool,
        key: PRNGKey,
    ):
        actor_key, critic_key, *trunk_keys = jax.random.split(key, 2 + len(hidden))
        self.trunk = linear_layers(inputs, hidden, use_bias, trunk_keys)
        # Without hidden layers the heads see the inputs.
        features = [inputs, *hidden][-1]
        self.actor, self.critic = make_heads(
            features, action_space, use_bias, actor_key, critic_key
        )

    def __call__(
        self, observation: Float[Array, " inputs"]
    ) -> tuple[Distribution, Scalar]:
        """Return the policy and the value of one observation."""
        features = observation
        for layer in self.trunk:
            features = jax.nn.relu(layer(features))
        # A scalar: an axis of length 1 would broadcast against returns.
        return self.actor(features), jnp.squeeze(self.critic(features), -1)


class SeparateMLP(eqx.Module):
    """An actor and a critic, each with its own tanh body (Continual World)."""

    actor_body: tuple[eqx.nn.Linear, ...]
    critic_body: tuple[eqx.nn.Linear, ...]
    actor: Head
    critic: eqx.nn.Linear

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        action_space: Space,
        use_bias: bool,
        key: PRNGKey,
    ):
        actor_key, critic_key, *keys = jax.random.split(key, 2 + 2 * len(hidden))
        self.actor_body = linear_layers(inputs, hidden, use_bias, keys[::2])
        self.critic_body = linear_layers(inputs, hidden, use_bias, keys[1::2])
        features = [inputs, *hidden][-1]
        self.actor, self.critic = make_heads(
            features, action_space, use_bias, actor_key, critic_key
        )

    def __call__(
        self, observation: Float[Array, " inputs"]
    ) -> tuple[Distribution, Scalar]:
        """Return the policy and the value of one observation."""
        actor_features = critic_features = observation
        for layer in self.actor_body:
            actor_features = jnp.tanh(layer(actor_features))
        for layer in self.critic_body:
            critic_features = jnp.tanh(layer(critic_features))
        return self.actor(actor_features), jnp.squeeze(self.critic(critic_features), -1)
