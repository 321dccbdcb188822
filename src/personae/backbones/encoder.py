"""From an environment's observation to a network's input."""

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from personae.encoding import REWARD_BOUND
from personae.types import Observation, Space, WithPreviousStep, current_observation


class Encoder(eqx.Module):
    """A function from an observation and a task's label to one vector.

    The vector has three parts: the scaled and flattened observation; the previous
    action, one-hot if it is a choice, and the previous reward, if the network gets
    them; and the one-hot label.
    """

    scale: float = eqx.field(static=True)
    """Factor on every entry, for example 1/255 for images."""
    label_dim: int = eqx.field(static=True)
    """Length of the one-hot task label; 0 leaves the label out."""
    previous_action_space: Space | None = eqx.field(static=True, default=None)
    """The action space; None if the network gets no previous action and reward."""

    @property
    def extra_size(self) -> int:
        """Number of entries after the observation."""
        if self.previous_action_space is None:
            return self.label_dim
        return self.label_dim + gym.spaces.flatdim(self.previous_action_space) + 1

    def __call__(
        self, observation: Observation, label: Int[Array, ""]
    ) -> Float[Array, " inputs"]:
        """Encode one observation of the task with this label."""
        # Encoded inside the network, so that stored images stay bytes until an update.
        current = current_observation(observation)
        flat = jnp.ravel(current).astype(jnp.float32) * self.scale
        # A `label_dim` of 0 gives an empty part, which needs no case of its own.
        parts = [flat, jax.nn.one_hot(label, self.label_dim)]
        if isinstance(observation, WithPreviousStep):
            # Policy files rely on this order: observation, previous step, label.
            parts.insert(1, self._encode_previous_step(observation))
        return jnp.concatenate(parts)

    def _encode_previous_step(
        self, observation: WithPreviousStep
    ) -> Float[Array, " size"]:
        action, space = observation.action, self.previous_action_space
        if isinstance(space, gym.spaces.Discrete):
            action = jax.nn.one_hot(action, int(space.n))
        elif isinstance(space, gym.spaces.MultiDiscrete):
            sizes = np.ravel(space.nvec)
            choices = zip(action, sizes, strict=True)
            parts = [jax.nn.one_hot(choice, int(n)) for choice, n in choices]
            action = jnp.concatenate(parts)
        # Rewards have no common scale: a huge one would swamp all other inputs.
        reward = jnp.clip(observation.reward, -REWARD_BOUND, REWARD_BOUND)
        return jnp.append(jnp.ravel(action), reward)
