"""Policies over one observation: categorical for discrete actions, Gaussian for Box.

Both are pytrees and take leading batch axes: a batch of policies is one object.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from personae.types import PRNGKey


class Categorical(eqx.Module):
    """A choice among finitely many actions."""

    logits: Float[Array, "*batch actions"]

    def sample(self, key: PRNGKey) -> Int[Array, "*batch"]:
        """Draw an action."""
        return jax.random.categorical(key, self.logits)

    def mode(self) -> Int[Array, "*batch"]:
        """Return the most likely action, the lowest index among equals."""
        return jnp.argmax(self.logits, axis=-1)

    def log_prob(self, action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Return the log-probability of an action."""
        # A one-hot product instead of a gather: its gradient is no scatter.
        one_hot = jax.nn.one_hot(action, self.logits.shape[-1])
        return jnp.sum(one_hot * jax.nn.log_softmax(self.logits), axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        """Return the entropy in nats."""
        # Logits have to be finite, since 0 * -inf would be NaN. The pipeline therefore
        # gives -1e9 to actions that a task does not have.
        log_probs = jax.nn.log_softmax(self.logits)
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)

    def divergence(self, other: "Categorical") -> Float[Array, "*batch"]:
        """Return KL(self || other) in nats."""
        log_p, log_q = map(jax.nn.log_softmax, (self.logits, other.logits))
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q), axis=-1)


class MultiCategorical(eqx.Module):
    """Several independent choices, each among its own number of actions."""

    choices: tuple[Categorical, ...]

    def sample(self, key: PRNGKey) -> Int[Array, "*batch choices"]:
        """Draw an action of each choice."""
        keys = jax.random.split(key, len(self.choices))
        actions = [c.sample(k) for c, k in zip(self.choices, keys, strict=True)]
        return jnp.stack(actions, axis=-1)

    def mode(self) -> Int[Array, "*batch choices"]:
        """Return the most likely action of each choice."""
        return jnp.stack([choice.mode() for choice in self.choices], axis=-1)

    def log_prob(self, action: Int[Array, "*batch choices"]) -> Float[Array, "*batch"]:
        """Return the log-probability of all actions together."""
        log_probs = [c.log_prob(action[..., i]) for i, c in enumerate(self.choices)]
        return jnp.sum(jnp.stack(log_probs), axis=0)

    def entropy(self) -> Float[Array, "*batch"]:
        """Return the entropy in nats, summed over the choices."""
        return jnp.sum(jnp.stack([c.entropy() for c in self.choices]), axis=0)

    def divergence(self, other: "MultiCategorical") -> Float[Array, "*batch"]:
        """Return KL(self || other) in nats, summed over the choices."""
        pairs = zip(self.choices, other.choices, strict=True)
        return jnp.sum(jnp.stack([a.divergence(b) for a, b in pairs]), axis=0)


class DiagonalGaussian(eqx.Module):
    """Independent normal distributions, one per action dimension."""

    mean: Float[Array, "*batch actions"]
    log_std: Float[Array, "*batch actions"]

    def sample(self, key: PRNGKey) -> Float[Array, "*batch actions"]:
        """Draw an action, not clipped to the action space."""
        # Clipping would change the density; the environment's copy is clipped instead.
        noise = jax.random.normal(key, self.mean.shape)
        return self.mean + jnp.exp(self.log_std) * noise

    def mode(self) -> Float[Array, "*batch actions"]:
        """Return the mean."""
        return self.mean

    def log_prob(
        self, action: Float[Array, "*batch actions"]
    ) -> Float[Array, "*batch"]:
        """Return the log-density of an (unclipped) action."""
        z = (action - self.mean) * jnp.exp(-self.log_std)
        constant = 0.5 * math.log(2 * math.pi)
        return jnp.sum(-0.5 * z**2 - self.log_std - constant, axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        """Return the entropy in nats, summed over the action dimensions."""
        constant = 0.5 * math.log(2 * math.pi * math.e)
        return jnp.sum(self.log_std + constant, axis=-1)

    def divergence(self, other: "DiagonalGaussian") -> Float[Array, "*batch"]:
        """Return KL(self || other) in nats, summed over the action dimensions."""
        log_ratio = other.log_std - self.log_std
        distance = (self.mean - other.mean) * jnp.exp(-other.log_std)
        terms = log_ratio + 0.5 * (jnp.exp(-2 * log_ratio) + distance**2 - 1)
        return jnp.sum(terms, axis=-1)
