"""Ordinary training of one network, task after task: the baselines of the paper.

Plain fine-tuning forgets. What keeps it from forgetting, if anything, is a
*regulariser*: a penalty on leaving what earlier tasks need (EWC, L2).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from personae.backbones.multihead import MultiHead, orthogonal_with_heads
from personae.methods.contract import InputPipeline, Method, ReplaySpec, Traits
from personae.types import Network, PolicyAndValue, PRNGKey, ReplayedSteps, Scalar


@runtime_checkable
class Regulariser(Protocol):
    """A price on changing a network that knows something; by default there is none."""

    @property
    def accumulates_gradient(self) -> bool:
        """Whether it looks back on all of a task's experience."""
        return False

    @property
    def replay(self) -> ReplaySpec | None:
        """What it remembers, if anything."""
        return None

    def init(self, network: MultiHead) -> Any:
        """Return the state before the first task."""
        return None

    def penalty(self, state: Any, network: MultiHead) -> Scalar:
        """Return the price of a network."""
        return jnp.zeros(())

    def replay_loss(
        self, state: Any, now: PolicyAndValue, steps: ReplayedSteps
    ) -> Float[Array, " steps"]:
        """Return the price of what is now made of each step that is remembered."""
        return jnp.zeros(steps.value.shape)

    def accumulate_gradient(
        self, state: Any, gradient: MultiHead, batch_size: int
    ) -> Any:
        """Look back on a batch of the task's experience, as `Method.accumulate_gradient` does."""
        return state

    def end_task(self, state: Any, network: MultiHead) -> Any:
        """Take in the network that a task ended with."""
        return state


class NoRegulariser(Regulariser):
    """No price at all."""


class FineTunedState(eqx.Module):
    """The network as the last task left it."""

    network: MultiHead
    task: Int[Array, ""]
    regulariser: Any


@dataclass(frozen=True)
class FineTune(Method):
    """One network for all tasks, trained on each in turn."""

    regulariser: Regulariser = NoRegulariser()
    multi_head: bool = False
    """An actor and a critic head per task; otherwise one of each."""
    restart: bool = False
    """Forget all before each task: single-task experts, the reference of transfer."""

    @property
    def traits(self) -> Traits:
        """The published runs keep one optimiser for the whole life."""
        return Traits(
            use_bias=True,
            keeps_optimiser=not self.restart,
            accumulates_gradient=self.regulariser.accumulates_gradient,
            replay=self.regulariser.replay,
        )

    def init(self, network: eqx.Module, num_tasks: int, key: PRNGKey) -> FineTunedState:
        """Draw the network as the published baselines do."""
        heads = num_tasks if self.multi_head else 1
        render_frame = orthogonal_with_heads(network, heads, key)
        first = jnp.asarray(0, jnp.int32)
        return FineTunedState(render_frame, first, self.regulariser.init(render_frame))

    def begin_task(
        self, state: FineTunedState, task: Int[Array, ""], key: PRNGKey
    ) -> FineTunedState:
        """Go on with the network as it is, or draw a new one."""
        network = state.network
        if self.restart:
            network = orthogonal_with_heads(
                network.select(task), network.num_heads, key
            )
        return FineTunedState(network, task.astype(jnp.int32), state.regulariser)

    def trainable(self, state: FineTunedState) -> MultiHead:
        """Return the whole network."""
        return state.network

    def network(
        self, state: FineTunedState, trainable: MultiHead, key: PRNGKey
    ) -> Network:
        """Return the network with the current task's heads."""
        return cast(Network, trainable.select(state.task))

    def penalty(self, state: FineTunedState, trainable: MultiHead) -> Scalar:
        """Return the regulariser's price."""
        return self.regulariser.penalty(state.regulariser, trainable)

    def replay_loss(
        self,
        state: FineTunedState,
        trainable: MultiHead,
        pipeline: InputPipeline,
        steps: ReplayedSteps,
        now: PolicyAndValue,
        key: PRNGKey,
    ) -> Float[Array, " steps"]:
        """Return the regulariser's price of what is remembered."""
        return self.regulariser.replay_loss(state.regulariser, now, steps)

    def accumulate_gradient(
        self, state: FineTunedState, gradient: MultiHead, batch_size: int
    ) -> FineTunedState:
        """Let the regulariser look back."""
        reviewed = self.regulariser.accumulate_gradient(
            state.regulariser, gradient, batch_size
        )
        return FineTunedState(state.network, state.task, reviewed)

    def end_task(
        self, state: FineTunedState, trainable: MultiHead, key: PRNGKey
    ) -> FineTunedState:
        """Keep the network."""
        kept = self.regulariser.end_task(state.regulariser, trainable)
        return FineTunedState(trainable, state.task, kept)

    def policy(
        self, state: FineTunedState, trainable: MultiHead, task: Int[Array, ""]
    ) -> Network:
        """Return the network with any task's heads, trained or not."""
        return cast(Network, trainable.select(task))

    def export(
        self, state: FineTunedState, trainable: MultiHead
    ) -> Mapping[str, Array]:
        """Return the whole network, with the heads of all tasks."""
        return trainable.named_arrays()
