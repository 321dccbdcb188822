"""Online elastic weight consolidation: weights that mattered are hard to move."""

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from personae.backbones.multihead import MultiHead
from personae.errors import require
from personae.methods.finetune import Regulariser
from personae.types import Scalar


@dataclass(frozen=True)
class EWCOptions:
    """How strongly, and how, earlier tasks hold on to the network."""

    strength: float = 1e2
    """Lambda, the weight of the penalty. Published: 1e2 for the CT-graph; for Minigrid
    1e2 in the paper's text and 1e5 in its code; 1e4 for Continual World."""
    retention: float = 0.5
    """Alpha, the share of the old importance that a new task leaves in place.
    Published: 0.5, for Continual World 0.75."""
    fisher: Literal["sum", "mean"] = "sum"
    """sum, as published: squared batch gradients over the batch size, added up over all
    batches of a task, so that importance grows with the length of a task. mean, as in
    textbooks: averaged over the batches, and one half before the penalty."""

    def __post_init__(self) -> None:
        share = self.retention
        require(self.strength >= 0, f"strength cannot be negative: {self.strength}")
        require(0 <= share < 1, f"retention must lie in [0, 1), not {share}")


class EWCState(eqx.Module):
    """What mattered so far, where it was, and the squared gradients being added up."""

    importance: PyTree[Array]
    anchor: PyTree[Array]
    squares: PyTree[Array]
    batches: Float[Array, ""]


@dataclass(frozen=True)
class EWC(Regulariser):
    """Online EWC (Schwarz et al., 2018) as the published baseline has it.

    The gradients are those of the learner's whole loss, value and entropy included, and
    come from all experience of a task, met again with the weights at its end.
    """

    options: EWCOptions = EWCOptions()

    @property
    def accumulates_gradient(self) -> bool:
        """Importance is measured on a task's experience."""
        return True

    def init(self, network: MultiHead) -> EWCState:
        """Return the state in which nothing matters."""
        zeros = jax.tree.map(jnp.zeros_like, network)
        return EWCState(zeros, network, zeros, jnp.zeros(()))

    def penalty(self, state: EWCState, network: MultiHead) -> Scalar:
        """Return the distance from the anchor, each weight by its importance."""
        factor = 1.0 if self.options.fisher == "sum" else 0.5
        distance = weighted_distance(state.importance, network, state.anchor)
        return self.options.strength * factor * distance

    def accumulate_gradient(
        self, state: EWCState, gradient: MultiHead, batch_size: int
    ) -> EWCState:
        """Add up squared gradients."""
        divisor = batch_size if self.options.fisher == "sum" else 1
        squares = jax.tree.map(lambda s, g: s + g**2 / divisor, state.squares, gradient)
        return EWCState(state.importance, state.anchor, squares, state.batches + 1)

    def end_task(self, state: EWCState, network: MultiHead) -> EWCState:
        """Blend the task's importance into the old one; its weights are the anchor."""
        keep = self.options.retention
        divisor = 1.0 if self.options.fisher == "sum" else state.batches
        importance = jax.tree.map(
            lambda old, new: keep * old + (1 - keep) * new / divisor,
            state.importance,
            state.squares,
        )
        zeros = jax.tree.map(jnp.zeros_like, network)
        return EWCState(importance, network, zeros, jnp.zeros(()))


def weighted_distance(
    importance: PyTree[Array], weights: PyTree[Array], anchor: PyTree[Array]
) -> Scalar:
    """Return the squared distance of weights, each by its importance."""
    each = jax.tree.map(
        lambda f, w, a: jnp.sum(f * (w - a) ** 2), importance, weights, anchor
    )
    return jax.tree.reduce(jnp.add, each)
