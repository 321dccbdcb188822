"""L2 towards the last task's weights: EWC in which every weight matters alike."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.backbones.multihead import MultiHead
from personae.errors import require
from personae.methods.finetune import Regulariser
from personae.types import Scalar


@dataclass(frozen=True)
class L2Options:
    """How strongly the weights are held."""

    strength: float = 1.0
    """Weight of the squared distance from the weights after the last task."""

    def __post_init__(self) -> None:
        require(self.strength >= 0, f"strength cannot be negative: {self.strength}")


class L2State(eqx.Module):
    """Where the weights were; `known` is 0 before the first task has ended."""

    anchor: eqx.Module
    known: Float[Array, ""]


@dataclass(frozen=True)
class L2(Regulariser):
    """A squared price on every shared weight that moves away from where it was.

    Heads are free: those of other tasks have no gradient, and RMSprop leaves them where
    they are (Adam moves them on for a while).
    """

    options: L2Options = L2Options()

    def init(self, network: MultiHead) -> L2State:
        """Return the state in which every weight may move."""
        return L2State(network.body, jnp.zeros(()))

    def penalty(self, state: L2State, network: MultiHead) -> Scalar:
        """Return the squared distance from the anchor."""
        squares = jax.tree.map(
            lambda w, a: jnp.sum((w - a) ** 2), network.body, state.anchor
        )
        return self.options.strength * state.known * jax.tree.reduce(jnp.add, squares)

    def end_task(self, state: L2State, network: MultiHead) -> L2State:
        """Hold the weights where they are now."""
        return L2State(network.body, jnp.ones(()))
