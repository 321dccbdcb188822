"""Online EWC as in CORA: importance from the newest experience, on a common scale."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from personae.backbones.multihead import MultiHead
from personae.errors import require
from personae.methods.contract import ReplaySpec
from personae.methods.ewc import (
    EWCState,
    anchored_state,
    initial_state,
    weighted_distance,
)
from personae.methods.finetune import Regulariser
from personae.types import Scalar

Scaling: TypeAlias = Literal["rows", "columns", "tensors", "none"]


# The defaults are CORA's for ProcGen, without the two slips of its public code, which
# `as_published` brings back.
@dataclass(frozen=True)
class OnlineEWCOptions:
    """Options of online EWC: the penalty's strength and the measure of importance."""

    strength: float = 175.0
    """Lambda, twice the weight of the penalty."""
    retention: float = 0.99
    """Gamma, the share of the old importance that remains after a new task."""
    frames: int = 1_000_000
    """Largest number of stored steps, the newest of a visit, on disk."""
    batches: int = 100
    """Stored batches on which importance is measured when a task ends."""
    squares: Literal["samples", "batches"] = "samples"
    """The gradients that are squared and averaged: those of single samples (unrolls
    with IMPALA, steps with PPO) or, as published, sums over whole batches, in which
    samples cancel each other out."""
    scaling: Scaling = "rows"
    """The vectors of importance that get length 1 after a task: those of each unit's
    inputs (rows), those of each input's effects (columns, which the published runs used
    but meant rows), each whole array (tensors), or none."""

    def __post_init__(self) -> None:
        require(self.strength >= 0, f"strength cannot be negative: {self.strength}")
        share = self.retention
        require(0 <= share <= 1, f"retention must lie in [0, 1], not {share}")
        for name in ("frames", "batches"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, not {value}")

    def as_published(self) -> "OnlineEWCOptions":
        """Return the options with the two slips of the public implementation."""
        return replace(self, squares="batches", scaling="columns")


@dataclass(frozen=True)
class OnlineEWC(Regulariser):
    """Online EWC (Schwarz et al., 2018; Powers et al., 2022) for any tree of weights.

    Importance is measured with the weights at a task's end on the task's newest
    experience, then added to the remaining share of the old one.

    Note: the gradient is that of the learner's whole loss, with the entropy bonus; the
    published runs leave the bonus out.
    """

    options: OnlineEWCOptions = OnlineEWCOptions()

    @property
    def replay(self) -> ReplaySpec:
        """A store of the newest experience, on which importance is measured."""
        return ReplaySpec(
            self.options.frames,
            retain="newest",
            gradient_batches=self.options.batches,
            per_sample=self.options.squares == "samples",
        )

    def init(self, network: PyTree[Array]) -> EWCState:
        """Return the state in which no weight is important."""
        return initial_state(network)

    def penalty(self, state: EWCState, network: PyTree[Array]) -> Scalar:
        """Return the squared distance from the anchor, weighted by importance."""
        # With one half, as in CORA; the paper's EWC baseline has none.
        distance = weighted_distance(state.importance, network, state.anchor)
        return self.options.strength / 2 * distance

    def accumulate_gradient(
        self, state: EWCState, gradient: PyTree[Array], batch_size: int
    ) -> EWCState:
        """Add up squared gradients."""
        squares = jax.tree.map(lambda s, g: s + g**2, state.squares, gradient)
        return EWCState(state.importance, state.anchor, squares, state.batches + 1)

    def end_task(self, state: EWCState, network: PyTree[Array]) -> EWCState:
        """Add the task's importance to the old one; its weights are the anchor."""
        # A task without any stored batch leaves sums of zero, not NaN.
        gamma, batches = self.options.retention, jnp.maximum(state.batches, 1)
        # As published, the old importance, scaled before, is added to the new one as it
        # is, and then their sum is scaled.
        blended = jax.tree.map(
            lambda old, new: gamma * old + new / batches,
            state.importance,
            state.squares,
        )
        importance = _normalise_tree(blended, self.options.scaling)
        return anchored_state(importance, network)


def _normalise_tree(importance: PyTree[Array], scaling: Scaling) -> PyTree[Array]:
    """Normalise all arrays; of stacked heads each task's by themselves."""
    scale = partial(jax.tree.map, partial(normalise_importance, scaling=scaling))
    if isinstance(importance, MultiHead):
        # With the axis of tasks in front, rows and columns would be other axes.
        heads = jax.vmap(scale)(importance.heads)
        return MultiHead(scale(importance.body), heads)
    return scale(importance)


def normalise_importance(
    importance: Float[Array, "..."], scaling: Scaling
) -> Float[Array, "..."]:
    """Scale the vectors that `scaling` names to length 1; zeros stay zeros.

    A one-dimensional array, such as a bias, is scaled as a whole.
    """
    if scaling == "none":
        return importance
    axes: tuple[int, ...] | None = None
    if importance.ndim > 1 and scaling != "tensors":
        axes = (0,) if scaling == "columns" else tuple(range(1, importance.ndim))
    squares = jnp.sum(importance**2, axes, keepdims=True)
    # Division by infinity, since 0 / 0 would be NaN.
    return importance / jnp.sqrt(jnp.where(squares > 0, squares, math.inf))
