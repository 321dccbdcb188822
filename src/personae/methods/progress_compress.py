"""Progress & Compress: a new column learns a task, then the old one learns from it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from personae.backbones.columns import Columns, make_adaptors
from personae.backbones.weights import named_arrays, orthogonal
from personae.errors import require
from personae.methods.contract import InputPipeline, Method, Traits
from personae.methods.online_ewc import OnlineEWC, OnlineEWCOptions
from personae.types import Network, PolicyAndValue, PRNGKey, ReplayedSteps, Scalar


@dataclass(frozen=True)
class ProgressCompressOptions:
    """How a task is learned, and how it is passed on."""

    progress: float = 0.5
    """Share of a visit in which the active column learns; in the rest it is passed on
    to the knowledge base. Rounded to evaluations."""
    distillation: float = 1.0
    """Weight of the divergence of the base's policy from the active column's."""
    ewc: OnlineEWCOptions = OnlineEWCOptions(
        strength=3000.0, frames=100_000, scaling="tensors"
    )
    """What holds the base in place, and how many of the newest steps are remembered."""
    fresh_adaptors: bool = True
    """Whether adaptors, too, are drawn anew for each task; the published runs kept
    them, as their reset did not reach them."""
    late: bool = False
    """Whether importance is measured when the next task is half over, as in the
    published runs: on experience of that task, not of the one it is to protect."""

    def __post_init__(self) -> None:
        share = self.progress
        require(0 < share < 1, f"progress must lie in (0, 1), not {share}")
        require(
            self.distillation >= 0,
            f"distillation cannot be negative: {self.distillation}",
        )

    def as_published(self) -> "ProgressCompressOptions":
        """Return them with what the public implementation did otherwise than meant."""
        ewc = replace(self.ewc, squares="batches")
        return replace(self, ewc=ewc, fresh_adaptors=False, late=True)


class ProgressCompressState(eqx.Module):
    """Both columns, and what holds the base in place."""

    columns: Columns
    ewc: Any
    compressing: Bool[Array, ""]
    """Whether the active column is being passed on."""
    visits: Int[Array, ""]
    """Visits that are over."""


@dataclass(frozen=True)
class ProgressCompress(Method):
    """Progress & Compress (Schwarz et al., 2018) as in CORA (Powers et al., 2022).

    The base alone is evaluated, so the first task shows in its second half only.

    Note: one optimiser serves both columns, as published. RMSprop leaves the one that
    is not trained where it is; Adam moves it on for a while.
    """

    options: ProgressCompressOptions = ProgressCompressOptions()

    @property
    def _ewc(self) -> OnlineEWC:
        return OnlineEWC(self.options.ewc)

    @property
    def traits(self) -> Traits:
        """Compressing is the second phase of every task, by the same optimiser."""
        share, late = self.options.progress, self.options.late
        replay = replace(self._ewc.replay, share=1.0, between_phases=late)
        phases = (share, 1 - share)
        return Traits(use_bias=True, keeps_optimiser=True, replay=replay, phases=phases)

    def init(
        self, network: eqx.Module, num_tasks: int, key: PRNGKey
    ) -> ProgressCompressState:
        """Draw both columns as the other baselines are drawn."""
        active_key, base_key, adaptor_key = jax.random.split(key, 3)
        base = orthogonal(network, base_key)
        columns = Columns(
            orthogonal(network, active_key), make_adaptors(network, adaptor_key), base
        )
        none_yet = jnp.zeros((), jnp.int32)
        return ProgressCompressState(
            columns, self._ewc.init(base), jnp.asarray(False), none_yet
        )

    def begin_task(
        self, state: ProgressCompressState, task: Int[Array, ""], key: PRNGKey
    ) -> ProgressCompressState:
        """Draw the active column anew."""
        active_key, adaptor_key = jax.random.split(key)
        columns = state.columns
        adaptors = columns.adaptors
        if self.options.fresh_adaptors:
            adaptors = make_adaptors(columns.active, adaptor_key)
        active = orthogonal(columns.active, active_key)
        begun = Columns(active, adaptors, columns.base)
        return ProgressCompressState(begun, state.ewc, jnp.asarray(False), state.visits)

    def trainable(self, state: ProgressCompressState) -> Columns:
        """Return both columns; which of them has a gradient depends on the phase."""
        return state.columns

    def network(
        self, state: ProgressCompressState, trainable: Columns, key: PRNGKey
    ) -> Network:
        """Return the active column, which learns until it is passed on."""
        active, adaptors = _still_if(
            state.compressing, (trainable.active, trainable.adaptors)
        )
        base = jax.lax.stop_gradient(trainable.base)
        return cast(Network, Columns(active, adaptors, base))

    def penalty(self, state: ProgressCompressState, trainable: Columns) -> Scalar:
        """Return the price of moving the base, which moves while it is taught only."""
        price = self._ewc.penalty(state.ewc, trainable.base)
        return jnp.where(state.compressing, price, 0.0)

    def replay_loss(
        self,
        state: ProgressCompressState,
        trainable: Columns,
        pipeline: InputPipeline,
        steps: ReplayedSteps,
        now: PolicyAndValue,
        key: PRNGKey,
    ) -> Float[Array, " steps"]:
        """Return how far the base's policy is from the active column's."""
        teacher = pipeline(jax.lax.stop_gradient(trainable))
        student = pipeline(cast(Network, trainable.base))
        wanted, _ = jax.vmap(teacher)(steps.observation)
        found, _ = jax.vmap(student)(steps.observation)
        apart = self.options.distillation * wanted.divergence(found)
        return jnp.where(state.compressing, apart, 0.0)

    def next_phase(
        self, state: ProgressCompressState, trainable: Columns, key: PRNGKey
    ) -> ProgressCompressState:
        """Pass the active column on from now on."""
        ewc = state.ewc
        if self.options.late:
            # The base is still as the task before left it.
            held = self._ewc.end_task(ewc, trainable.base)
            free = self._ewc.init(trainable.base)  # as there was no task before
            ewc = jax.tree.map(
                lambda a, b: jnp.where(state.visits > 0, a, b), held, free
            )
        return ProgressCompressState(trainable, ewc, jnp.asarray(True), state.visits)

    def gradient_network(
        self, state: ProgressCompressState, trainable: Columns, key: PRNGKey
    ) -> Network:
        """Return the base, whose weights are to be held."""
        return cast(Network, trainable.base)

    def accumulate_gradient(
        self, state: ProgressCompressState, gradient: Columns, batch_size: int
    ) -> ProgressCompressState:
        """Let the regulariser look back."""
        ewc = self._ewc.accumulate_gradient(state.ewc, gradient.base, batch_size)
        return eqx.tree_at(lambda s: s.ewc, state, ewc)

    def end_task(
        self, state: ProgressCompressState, trainable: Columns, key: PRNGKey
    ) -> ProgressCompressState:
        """Hold the base where it is now."""
        late = self.options.late
        ewc = state.ewc if late else self._ewc.end_task(state.ewc, trainable.base)
        return ProgressCompressState(
            trainable, ewc, state.compressing, state.visits + 1
        )

    def policy(
        self, state: ProgressCompressState, trainable: Columns, task: Int[Array, ""]
    ) -> Network:
        """Return the base, for all tasks."""
        return cast(Network, trainable.base)

    def export(
        self, state: ProgressCompressState, trainable: Columns
    ) -> Mapping[str, Array]:
        """Return the base."""
        return named_arrays(trainable.base)


def _still_if(still: Bool[Array, ""], tree: Any) -> Any:
    """Return the same, without a gradient if it is to be still."""
    return jax.tree.map(
        lambda leaf: jnp.where(still, jax.lax.stop_gradient(leaf), leaf), tree
    )
