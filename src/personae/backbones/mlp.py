"""Fully connected actor-critic networks (the paper's network tables)."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.backbones.heads import CategoricalHead, GaussianHead, make_head
from personae.types import Distribution, PRNGKey, Scalar


class SharedMLP(eqx.Module):
    """One ReLU trunk with an actor and a critic head (CT-graph, Minigrid)."""

    trunk: tuple[eqx.nn.Linear, ...]
    actor: CategoricalHead | GaussianHead
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
        sizes = [inputs, *hidden]
        self.trunk = tuple(
            eqx.nn.Linear(fan_in, fan_out, use_bias, key=layer_key)
            for fan_in, fan_out, layer_key in zip(
                sizes[:-1], sizes[1:], trunk_keys, strict=True
            )
        )
        self.actor = make_head(sizes[-1], action_space, use_bias, actor_key)
        self.critic = eqx.nn.Linear(sizes[-1], 1, use_bias, key=critic_key)

    def __call__(
        self, observation: Float[Array, " inputs"]
    ) -> tuple[Distribution, Scalar]:
        """Return the policy and the value of one observation."""
        features = observation
        for layer in self.trunk:
            features = jax.nn.relu(layer(features))
        return self.actor(features), jnp.squeeze(self.critic(features), -1)
