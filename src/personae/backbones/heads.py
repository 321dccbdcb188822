"""Last layers, from features to a policy; the action space decides which one."""

import itertools
from typing import TypeAlias

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from personae.backbones.distributions import (
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
)
from personae.types import PRNGKey, Space

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


class MultiCategoricalHead(eqx.Module):
    """Logits of several discrete choices."""

    logits: eqx.nn.Linear
    sizes: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self, features: int, sizes: tuple[int, ...], use_bias: bool, key: PRNGKey
    ):
        self.logits = eqx.nn.Linear(features, sum(sizes), use_bias, key=key)
        self.sizes = sizes

    def __call__(self, features: Float[Array, " features"]) -> MultiCategorical:
        """Return the policy for one feature vector."""
        ends = list(itertools.accumulate(self.sizes))[:-1]
        parts = jnp.split(self.logits(features), ends)
        return MultiCategorical(tuple(map(Categorical, parts)))


class GaussianHead(eqx.Module):
    """Linear mean and a clipped, state-dependent log standard deviation."""

    mean: eqx.nn.Linear
    log_std: eqx.nn.Linear

    def __init__(self, features: int, actions: int, use_bias: bool, key: PRNGKey):
        mean_key, std_key = jax.random.split(key)
        self.mean = eqx.nn.Linear(features, actions, use_bias, key=mean_key)
        # A layer, not a free parameter: masks modulate nothing but weights.
        self.log_std = eqx.nn.Linear(features, actions, use_bias, key=std_key)

    def __call__(self, features: Float[Array, " features"]) -> DiagonalGaussian:
        """Return the policy for one feature vector."""
        # Outside the bounds the clip passes no gradient, as in the published runs.
        log_std = jnp.clip(self.log_std(features), *LOG_STD_BOUNDS)
        return DiagonalGaussian(self.mean(features), log_std)


Head: TypeAlias = CategoricalHead | MultiCategoricalHead | GaussianHead


def make_heads(
    features: int,
    space: Space,
    use_bias: bool,
    actor_key: PRNGKey,
    critic_key: PRNGKey,
) -> tuple[Head, eqx.nn.Linear]:
    """Build an actor and a critic over the same number of features."""
    actor = make_head(features, space, use_bias, actor_key)
    return actor, eqx.nn.Linear(features, 1, use_bias, key=critic_key)


def make_head(features: int, space: Space, use_bias: bool, key: PRNGKey) -> Head:
    """Build the head that fits an action space."""
    if isinstance(space, gym.spaces.Discrete):
        return CategoricalHead(features, int(space.n), use_bias, key)
    if isinstance(space, gym.spaces.MultiDiscrete):
        # `nvec` may have several axes; a policy's choices form one row.
        sizes = tuple(int(n) for n in np.ravel(space.nvec))
        return MultiCategoricalHead(features, sizes, use_bias, key)
    if isinstance(space, gym.spaces.Box):
        return GaussianHead(features, int(np.prod(space.shape)), use_bias, key)
    raise TypeError(
        f"no policy head for the action space {space}: use Discrete, MultiDiscrete or "
        "Box"
    )
