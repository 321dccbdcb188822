"""Last layers that turn features into a policy, chosen by the action space."""

from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from personae.backbones.distributions import Categorical, DiagonalGaussian
from personae.types import PRNGKey

LOG_STD_BOUNDS = (-0.6931, 0.4055)
"""Published clip of the log standard deviation: a deviation between 0.5 and 1.5."""


class CategoricalHead(eqx.Module):
    """Logits of a discrete policy."""

    logits: eqx.nn.Linear

    def __init__(self, features: int, actions: int, use_bias: bool, key: PRNGKey):
        self.logits = eqx.nn.Linear(features, actions, use_bias, key=key)

    def __call__(self, features: Float[Array, " features"]) -> Categorical:
        """Return the policy for one feature vector."""
        return Categorical(self.logits(features))


class GaussianHead(eqx.Module):
    """Linear mean and a clipped, state-dependent log standard deviation."""

    mean: eqx.nn.Linear
    log_std: eqx.nn.Linear

    def __init__(self, features: int, actions: int, use_bias: bool, key: PRNGKey):
        mean_key, std_key = jax.random.split(key)
        self.mean = eqx.nn.Linear(features, actions, use_bias, key=mean_key)
        self.log_std = eqx.nn.Linear(features, actions, use_bias, key=std_key)

    def __call__(self, features: Float[Array, " features"]) -> DiagonalGaussian:
        """Return the policy for one feature vector."""
        log_std = jnp.clip(self.log_std(features), *LOG_STD_BOUNDS)
        return DiagonalGaussian(self.mean(features), log_std)


def make_head(
    features: int, space: gym.Space[Any], use_bias: bool, key: PRNGKey
) -> CategoricalHead | GaussianHead:
    """Build the head that fits an action space."""
    if isinstance(space, gym.spaces.Discrete):
        return CategoricalHead(features, int(space.n), use_bias, key)
    if isinstance(space, gym.spaces.Box):
        return GaussianHead(features, int(np.prod(space.shape)), use_bias, key)
    raise TypeError(f"no policy head for the action space {space}: use Discrete or Box")
