"""Online elastic weight consolidation: a penalty on moving important weights."""

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
    """Options of EWC: the strength of the penalty and the measure of importance."""

    strength: float = 1e2
    """Lambda, the weight of the penalty. Published: 1e2 for the CT-graph; for Minigrid
    1e2 in the paper's text and 1e5 in its code; 1e4 for Continual World."""
    retention: float = 0.5
    """Alpha, the share of the old importance that remains after a new task.
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
    """The importance of each weight, its anchor, and sums for the next importance.

    Importance, anchor and squares are trees like the weights.
    """

    importance: PyTree[Array]
    anchor: PyTree[Array]
    """The weights at the end of the last task."""
    squares: PyTree[Array]
    """Sums of squared gradients on the current task."""
    batches: Float[Array, ""]
    """Number of batches in these sums."""


def initial_state(network: PyTree[Array]) -> EWCState:
    """Return the state in which no weight is important."""
    # With importance zero any anchor of the right shapes will do.
    zeros = jax.tree.map(jnp.zeros_like, network)
    return EWCState(zeros, network, zeros, jnp.zeros(()))


def anchored_state(importance: PyTree[Array], network: PyTree[Array]) -> EWCState:
    """Return the state after a task that ended with these weights."""
    zeros = jax.tree.map(jnp.zeros_like, network)
    return EWCState(importance, network, zeros, jnp.zeros(()))


@dataclass(frozen=True)
class EWC(Regulariser):
    """Online EWC (Schwarz et al., 2018) as the published baseline has it.

    The gradients are those of the learner's whole loss, value and entropy included, on
    all experience of a task, taken with the weights at the task's end.
    """

    options: EWCOptions = EWCOptions()

    @property
    def accumulates_gradient(self) -> bool:
        """True: importance is measured on all of a task's experience."""
        return True

    def init(self, network: MultiHead) -> EWCState:
        """Return the state in which no weight is important."""
        return initial_state(network)

    def penalty(self, state: EWCState, network: MultiHead) -> Scalar:
        """Return the squared distance from the anchor, weighted by importance."""
        factor = 1.0 if self.options.fisher == "sum" else 0.5
        distance = weighted_distance(state.importance, network, state.anchor)
        return self.options.strength * factor * distance

    def accumulate_gradient(
        self, state: EWCState, gradient: MultiHead, batch_size: int
    ) -> EWCState:
        """Add up squared gradients."""
        # The square of a mean gradient, not of each sample's: as published.
        divisor = batch_size if self.options.fisher == "sum" else 1
        squares = jax.tree.map(lambda s, g: s + g**2 / divisor, state.squares, gradient)
        return EWCState(state.importance, state.anchor, squares, state.batches + 1)

    def end_task(self, state: EWCState, network: MultiHead) -> EWCState:
        """Blend the task's importance into the old one; its weights are the anchor."""
        # Heads of other tasks have no gradient, so their importance fades by alpha.
        alpha = self.options.retention
        # Never 0: all experience of a task is gone through before it ends.
        divisor = 1.0 if self.options.fisher == "sum" else state.batches
        importance = jax.tree.map(
            lambda old, new: alpha * old + (1 - alpha) * new / divisor,
            state.importance,
            state.squares,
        )
        return anchored_state(importance, network)


def weighted_distance(
    importance: PyTree[Array], weights: PyTree[Array], anchor: PyTree[Array]
) -> Scalar:
    """Return the squared distance from the anchor, weighted by importance."""
    distances = jax.tree.map(
        lambda f, w, a: jnp.sum(f * (w - a) ** 2), importance, weights, anchor
    )
    return jax.tree.reduce(jnp.add, distances)
