"""Online EWC as CORA has it: importance from the newest experience, on one scale."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from personae.backbones.multihead import MultiHead
from personae.errors import require
from personae.methods.contract import ReplaySpec
from personae.methods.ewc import weighted_distance
from personae.methods.finetune import Regulariser
from personae.types import Scalar

Scaling: TypeAlias = Literal["rows", "columns", "tensors", "none"]


@dataclass(frozen=True)
class OnlineEWCOptions:
    """How importance is measured, and how strongly it holds."""

    strength: float = 175.0
    """Lambda, twice the weight of the penalty."""
    retention: float = 0.99
    """Gamma, the share of the old importance that a new task leaves in place."""
    frames: int = 1_000_000
    """Steps of which the newest are remembered, on disk."""
    batches: int = 100
    """Batches of them that are looked back on when a task ends."""
    squares: Literal["samples", "batches"] = "samples"
    """Of what gradients are squared before they are averaged: samples one by one
    (unrolls with IMPALA, steps with PPO), or, as published, sums over whole batches, in
    which samples cancel each other out."""
    scaling: Scaling = "rows"
    """What has length 1 after a task: the importance of each unit's inputs (rows), of
    each input's effects (columns: what the published runs did, meaning rows), of each
    array (tensors), or nothing."""

    def __post_init__(self) -> None:
        require(self.strength >= 0, f"strength cannot be negative: {self.strength}")
        share = self.retention
        require(0 <= share <= 1, f"retention must lie in [0, 1], not {share}")
        for name in ("frames", "batches"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, not {value}")

    def as_published(self) -> "OnlineEWCOptions":
        """Return them with the two slips of the public implementation."""
        return replace(self, squares="batches", scaling="columns")


class OnlineEWCState(eqx.Module):
    """What mattered so far, where it was, and the squared gradients being added up."""

    importance: PyTree[Array]
    anchor: PyTree[Array]
    squares: PyTree[Array]
    number: Float[Array, ""]


@dataclass(frozen=True)
class OnlineEWC(Regulariser):
    """Online EWC (Schwarz et al., 2018; Powers et al., 2022) for any tree of weights.

    Importance is measured with the weights at a task's end on the task's newest
    experience, then added to what is left of the old.

    Note: the gradient is that of the learner's whole loss, with the entropy bonus; the
    published runs leave that out.
    """

    options: OnlineEWCOptions = OnlineEWCOptions()

    @property
    def replay(self) -> ReplaySpec:
        """The newest experience, to look back on."""
        return ReplaySpec(
            self.options.frames,
            retain="newest",
            gradient_batches=self.options.batches,
            per_sample=self.options.squares == "samples",
        )

    def init(self, network: PyTree[Array]) -> OnlineEWCState:
        """Return the state in which nothing matters."""
        zeros = jax.tree.map(jnp.zeros_like, network)
        return OnlineEWCState(zeros, network, zeros, jnp.zeros(()))

    def penalty(self, state: OnlineEWCState, network: PyTree[Array]) -> Scalar:
        """Return the distance from the anchor, each weight by its importance."""
        distance = weighted_distance(state.importance, network, state.anchor)
        return self.options.strength / 2 * distance

    def accumulate_gradient(
        self, state: OnlineEWCState, gradient: PyTree[Array], batch_size: int
    ) -> OnlineEWCState:
        """Add up squared gradients."""
        squares = jax.tree.map(lambda s, g: s + g**2, state.squares, gradient)
        return OnlineEWCState(state.importance, state.anchor, squares, state.number + 1)

    def end_task(self, state: OnlineEWCState, network: PyTree[Array]) -> OnlineEWCState:
        """Add the task's importance to what is left; its weights are the anchor."""
        keep, number = self.options.retention, jnp.maximum(state.number, 1)
        blended = jax.tree.map(
            lambda old, new: keep * old + new / number, state.importance, state.squares
        )
        importance = _scaled_tree(blended, self.options.scaling)
        zeros = jax.tree.map(jnp.zeros_like, network)
        return OnlineEWCState(importance, network, zeros, jnp.zeros(()))


def _scaled_tree(importance: PyTree[Array], scaling: Scaling) -> PyTree[Array]:
    """Scale all arrays; the heads of several tasks each by itself."""
    scale = partial(jax.tree.map, partial(scaled, scaling=scaling))
    if isinstance(importance, MultiHead):
        heads = jax.vmap(scale)(importance.heads)
        return MultiHead(scale(importance.body), heads)
    return scale(importance)


def scaled(importance: Float[Array, "..."], scaling: Scaling) -> Float[Array, "..."]:
    """Return importance in which what is chosen has length 1, or 0 where it had none.

    A vector, such as a bias, is scaled as a whole.
    """
    if scaling == "none":
        return importance
    axes: tuple[int, ...] | None = None
    if importance.ndim > 1 and scaling != "tensors":
        axes = (0,) if scaling == "columns" else tuple(range(1, importance.ndim))
    squares = jnp.sum(importance**2, axes, keepdims=True)
    return importance / jnp.sqrt(jnp.where(squares > 0, squares, math.inf))
