"""Progress & Compress: an active column learns a task and then teaches the base."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from personae.backbones.columns import Columns, make_adaptors
from personae.backbones.weights import named_arrays, orthogonal
from personae.errors import require
from personae.methods.contract import InputPipeline, Method, Traits
from personae.methods.ewc import EWCState
from personae.methods.online_ewc import OnlineEWC, OnlineEWCOptions
from personae.types import Network, PolicyAndValue, PRNGKey, ReplayedSteps, Scalar


# The defaults are CORA's for ProcGen, without the slips of its public code, which
# `as_published` brings back.
@dataclass(frozen=True)
class ProgressCompressOptions:
    """Options of Progress & Compress: its phases, its losses and its slips."""

    progress: float = 0.5
    """Share of a visit in which the active column learns; in the rest it teaches the
    knowledge base. Rounded to evaluations."""
    distillation: float = 1.0
    """Weight of the divergence of the base's policy from the active column's."""
    ewc: OnlineEWCOptions = OnlineEWCOptions(
        strength=3000.0, frames=100_000, scaling="tensors"
    )
    """The penalty on moving the base, and the size of the store of newest steps."""
    fresh_adaptors: bool = True
    """Whether adaptors, too, are drawn anew for each task. In the published runs they
    lasted, as the reset did not reach them."""
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
        """Return the options with the slips of the public implementation."""
        ewc = replace(self.ewc, squares="batches")
        return replace(self, ewc=ewc, fresh_adaptors=False, late=True)


class ProgressCompressState(eqx.Module):
    """Both columns, the regulariser of the base, and the phase."""

    columns: Columns
    ewc: EWCState
    compressing: Bool[Array, ""]
    """Whether the active column is teaching the base."""
    visits: Int[Array, ""]
    """Number of finished visits."""


@dataclass(frozen=True)
class ProgressCompress(Method):
    """Progress & Compress (Schwarz et al., 2018) as in CORA (Powers et al., 2022).

    Only the base is evaluated, so the first task shows in its second half only.

    Note: one optimiser serves both columns, as published. RMSprop does not move a
    column without a gradient; Adam moves it for a while.
    """

    options: ProgressCompressOptions = ProgressCompressOptions()

    @property
    def _ewc(self) -> OnlineEWC:
        return OnlineEWC(self.options.ewc)

    @property
    def traits(self) -> Traits:
        """The properties of the method; compressing is the second phase of a task."""
        share, late = self.options.progress, self.options.late
        # As in CORA, a batch replays as many unrolls as it has new ones.
        replay = replace(self._ewc.replay, share=1.0, between_phases=late)
        phases = (share, 1 - share)
        return Traits(use_bias=True, keeps_optimiser=True, replay=replay, phases=phases)

    def init(
        self, network: eqx.Module, num_tasks: int, key: PRNGKey
    ) -> ProgressCompressState:
        """Draw both columns like the networks of the other baselines."""
        active_key, base_key, adaptor_key = jax.random.split(key, 3)
        base = orthogonal(network, base_key)
        columns = Columns(
            orthogonal(network, active_key), make_adaptors(network, adaptor_key), base
        )
        visits = jnp.zeros((), jnp.int32)
        return ProgressCompressState(
            columns, self._ewc.init(base), jnp.asarray(False), visits
        )

    def begin_task(
        self, state: ProgressCompressState, task: Int[Array, ""], key: PRNGKey
    ) -> ProgressCompressState:
        """Draw the active column anew."""
        # Both keys in any case: whether adaptors are fresh must not change the column.
        active_key, adaptor_key = jax.random.split(key)
        columns = state.columns
        adaptors = columns.adaptors
        if self.options.fresh_adaptors:
            adaptors = make_adaptors(columns.active, adaptor_key)
        active = orthogonal(columns.active, active_key)
        fresh = Columns(active, adaptors, columns.base)
        return ProgressCompressState(fresh, state.ewc, jnp.asarray(False), state.visits)

    def trainable(self, state: ProgressCompressState) -> Columns:
        """Return both columns; the phase decides which of them has a gradient."""
        return state.columns

    def network(
        self, state: ProgressCompressState, trainable: Columns, key: PRNGKey
    ) -> Network:
        """Return the active column, which has a gradient in the first phase only."""
        active, adaptors = _stop_gradient_if(
            state.compressing, (trainable.active, trainable.adaptors)
        )
        # The base lends its features only; the learner's loss must not move it.
        base = jax.lax.stop_gradient(trainable.base)
        return cast(Network, Columns(active, adaptors, base))

    def penalty(self, state: ProgressCompressState, trainable: Columns) -> Scalar:
        """Return the penalty on moving the base, in the second phase only."""
        penalty = self._ewc.penalty(state.ewc, trainable.base)
        return jnp.where(state.compressing, penalty, 0.0)

    def replay_loss(
        self,
        state: ProgressCompressState,
        trainable: Columns,
        pipeline: InputPipeline,
        steps: ReplayedSteps,
        outputs: PolicyAndValue,
        key: PRNGKey,
    ) -> Float[Array, " steps"]:
        """Return the divergence of the base's policy from the active column's."""
        # Without a gradient: the base learns from the active column, not the reverse.
        teacher = pipeline(jax.lax.stop_gradient(trainable))
        student = pipeline(cast(Network, trainable.base))
        target, _ = jax.vmap(teacher)(steps.observation)
        policy, _ = jax.vmap(student)(steps.observation)
        # The first phase computes it as well: under `vmap` a branch costs both sides.
        distance = self.options.distillation * target.divergence(policy)
        return jnp.where(state.compressing, distance, 0.0)

    def next_phase(
        self, state: ProgressCompressState, trainable: Columns, key: PRNGKey
    ) -> ProgressCompressState:
        """Let the active column teach the base for the rest of the visit."""
        ewc = state.ewc
        if self.options.late:
            # The base has not moved since the last task: it can still be its anchor.
            anchored = self._ewc.end_task(ewc, trainable.base)
            # In the first visit there is no last task, so nothing to protect.
            free = self._ewc.init(trainable.base)
            ewc = jax.tree.map(
                lambda a, b: jnp.where(state.visits > 0, a, b), anchored, free
            )
        return ProgressCompressState(trainable, ewc, jnp.asarray(True), state.visits)

    def gradient_network(
        self, state: ProgressCompressState, trainable: Columns, key: PRNGKey
    ) -> Network:
        """Return the base, whose weights the penalty protects."""
        return cast(Network, trainable.base)

    def accumulate_gradient(
        self, state: ProgressCompressState, gradient: Columns, batch_size: int
    ) -> ProgressCompressState:
        """Pass the base's gradient on to the regulariser."""
        ewc = self._ewc.accumulate_gradient(state.ewc, gradient.base, batch_size)
        return eqx.tree_at(lambda s: s.ewc, state, ewc)

    def end_task(
        self, state: ProgressCompressState, trainable: Columns, key: PRNGKey
    ) -> ProgressCompressState:
        """Set the regulariser's anchor to the base, unless that is done later."""
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


def _stop_gradient_if(condition: Bool[Array, ""], tree: PyTree[Array]) -> PyTree[Array]:
    """Return the same values, without a gradient if the condition holds."""
    # The phase is data, so that both phases share one compiled program.
    return jax.tree.map(
        lambda leaf: jnp.where(condition, jax.lax.stop_gradient(leaf), leaf), tree
    )
