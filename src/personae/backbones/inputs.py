"""From an environment's observation to a network's input."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Encoder(eqx.Module):
    """Scales and flattens an observation and appends the task's one-hot label."""

    scale: float = eqx.field(static=True)
    """Factor on every entry, for example 1/255 for images."""
    label_dim: int = eqx.field(static=True)
    """Length of the one-hot task label; 0 leaves the label out."""

    def __call__(
        self, observation: Array, label: Int[Array, ""]
    ) -> Float[Array, " inputs"]:
        """Encode one observation of the task with this label."""
        flat = jnp.ravel(observation).astype(jnp.float32) * self.scale
        return jnp.concatenate([flat, jax.nn.one_hot(label, self.label_dim)])
