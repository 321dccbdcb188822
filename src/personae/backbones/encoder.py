"""From an environment's observation to a network's input."""

from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from personae.encoding import REWARD_BOUND
from personae.types import Observation, WithPreviousStep, current_observation


class Encoder(eqx.Module):
    """Scales and flattens an observation and appends the task's one-hot label.

    The last action, one-hot if it is a choice, and reward come in between, if they are
    to be seen.
    """

    scale: float = eqx.field(static=True)
    """Factor on every entry, for example 1/255 for images."""
    label_dim: int = eqx.field(static=True)
    """Length of the one-hot task label; 0 leaves the label out."""
    previous_action_space: gym.Space[Any] | None = eqx.field(static=True, default=None)
    """The actions of which the last is seen, if any is."""

    @property
    def extra_size(self) -> int:
        """How many numbers come after the observation."""
        if self.previous_action_space is None:
            return self.label_dim
        return self.label_dim + gym.spaces.flatdim(self.previous_action_space) + 1

    def _recall(self, observation: WithPreviousStep) -> Float[Array, " beside"]:
        action, space = observation.action, self.previous_action_space
        if isinstance(space, gym.spaces.Discrete):
            action = jax.nn.one_hot(action, int(space.n))
        elif isinstance(space, gym.spaces.MultiDiscrete):
            sizes = np.ravel(space.nvec)
            parts = [jax.nn.one_hot(a, int(n)) for a, n in zip(action, sizes)]  # noqa: B905
            action = jnp.concatenate(parts)
        reward = jnp.clip(observation.reward, -REWARD_BOUND, REWARD_BOUND)
        return jnp.append(jnp.ravel(action), reward)

    def __call__(
        self, observation: Observation, label: Int[Array, ""]
    ) -> Float[Array, " inputs"]:
        """Encode one observation of the task with this label."""
        flat = (
            jnp.ravel(current_observation(observation)).astype(jnp.float32) * self.scale
        )
        parts = [flat, jax.nn.one_hot(label, self.label_dim)]
        if isinstance(observation, WithPreviousStep):
            parts.insert(1, self._recall(observation))
        return jnp.concatenate(parts)
