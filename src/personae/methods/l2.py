"""L2 towards the last task's weights: EWC with the same importance for all weights."""

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
    """Options of L2: the strength of the penalty."""

    strength: float = 1.0
    """Weight of the squared distance from the weights after the last task."""

    def __post_init__(self) -> None:
        require(self.strength >= 0, f"strength cannot be negative: {self.strength}")


class L2State(eqx.Module):
    """The anchor of the weights, and whether there is one."""

    anchor: eqx.Module
    """The body of the network at the end of the last task."""
    has_anchor: Float[Array, ""]
    """0 before the first task has ended, then 1."""


@dataclass(frozen=True)
class L2(Regulariser):
    """A penalty on the squared distance of all shared weights from their anchor.

    Heads are left out: those of other tasks have no gradient, and RMSprop does not move
    them then (Adam goes on for a while).
    """

    options: L2Options = L2Options()

    def init(self, network: MultiHead) -> L2State:
        """Return the state in which every weight may move."""
        # The first body stands in for an anchor, as shapes may not change later.
        return L2State(network.body, jnp.zeros(()))

    def penalty(self, state: L2State, network: MultiHead) -> Scalar:
        """Return the squared distance from the anchor."""
        squares = jax.tree.map(
            lambda w, a: jnp.sum((w - a) ** 2), network.body, state.anchor
        )
        # A factor, not a branch: one program serves the first task and all others.
        return (
            self.options.strength * state.has_anchor * jax.tree.reduce(jnp.add, squares)
        )

    def end_task(self, state: L2State, network: MultiHead) -> L2State:
        """Set the anchor to the current weights."""
        return L2State(network.body, jnp.ones(()))
