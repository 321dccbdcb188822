"""Ordinary training of one network, task after task: the baselines of the paper.

Plain fine-tuning forgets. A *regulariser* may keep it from forgetting: a penalty on
moving away from weights or outputs that previous tasks need (EWC, L2, CLEAR).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from personae.backbones.multihead import MultiHead, orthogonal_with_heads
from personae.methods.contract import (
    InputPipeline,
    Method,
    ReplaySpec,
    State,
    Traits,
)
from personae.types import Network, PolicyAndValue, PRNGKey, ReplayedSteps, Scalar


@runtime_checkable
class Regulariser(Protocol):
    """A penalty on forgetting previous tasks.

    An interface with defaults: without any method of its own there is no penalty and no
    state. Implementations inherit from it to get these defaults, and from nothing else.
    """

    @property
    def accumulates_gradient(self) -> bool:
        """Whether `accumulate_gradient` gets all of a task's experience."""
        return False

    @property
    def replay(self) -> ReplaySpec | None:
        """The experience to store, if any."""
        return None

    def init(self, network: MultiHead) -> State:
        """Return the state before the first task."""
        # None is an empty tree: it takes no place in programs and checkpoints.
        return None

    def penalty(self, state: State, network: MultiHead) -> Scalar:
        """Return a term to add to the learner's loss."""
        return jnp.zeros(())

    def replay_loss(
        self, state: State, outputs: PolicyAndValue, steps: ReplayedSteps
    ) -> Float[Array, " steps"]:
        """Return a term of the loss for each replayed step.

        Args:
            state: The regulariser's state.
            outputs: The outputs of the current network on these steps.
            steps: Replayed steps, with the outputs of the network at the time.
        """
        return jnp.zeros(steps.value.shape)

    def accumulate_gradient(
        self, state: State, gradient: MultiHead, batch_size: int
    ) -> State:
        """Take in the gradient on one batch, as `Method.accumulate_gradient` does."""
        return state

    def end_task(self, state: State, network: MultiHead) -> State:
        """Take in the network with which a task ended."""
        return state


class NoRegulariser(Regulariser):
    """A regulariser without any penalty."""


class FineTunedState(eqx.Module):
    """The network at the start of a phase, the task and the regulariser's state."""

    network: MultiHead
    task: Int[Array, ""]
    regulariser: PyTree[Array]


@dataclass(frozen=True)
class FineTune(Method):
    """One network for all tasks, trained on each in turn."""

    regulariser: Regulariser = NoRegulariser()
    multi_head: bool = False
    """An actor and a critic head per task; otherwise one of each."""
    restart: bool = False
    """Draw a new network before each task: single-task experts, the reference of
    transfer."""

    @property
    def traits(self) -> Traits:
        """The properties of the method."""
        # One optimiser for all tasks, as in the published runs.
        # Experts were runs of their own, so each of them begins with a fresh one.
        return Traits(
            use_bias=True,
            keeps_optimiser=not self.restart,
            accumulates_gradient=self.regulariser.accumulates_gradient,
            replay=self.regulariser.replay,
        )

    def init(self, network: eqx.Module, num_tasks: int, key: PRNGKey) -> FineTunedState:
        """Draw the network as the published baselines do."""
        # All heads exist from the start: shapes are fixed, and tasks not yet seen are
        # evaluated with untrained heads, as published.
        heads = num_tasks if self.multi_head else 1
        fresh = orthogonal_with_heads(network, heads, key)
        first = jnp.asarray(0, jnp.int32)
        return FineTunedState(fresh, first, self.regulariser.init(fresh))

    def begin_task(
        self, state: FineTunedState, task: Int[Array, ""], key: PRNGKey
    ) -> FineTunedState:
        """Continue with the same network or, for experts, draw a new one."""
        network = state.network
        if self.restart:
            # Only the form of the selected network counts; its weights are drawn anew.
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
        """Return the regulariser's penalty."""
        return self.regulariser.penalty(state.regulariser, trainable)

    def replay_loss(
        self,
        state: FineTunedState,
        trainable: MultiHead,
        pipeline: InputPipeline,
        steps: ReplayedSteps,
        outputs: PolicyAndValue,
        key: PRNGKey,
    ) -> Float[Array, " steps"]:
        """Return the regulariser's loss of replayed steps."""
        return self.regulariser.replay_loss(state.regulariser, outputs, steps)

    def accumulate_gradient(
        self, state: FineTunedState, gradient: MultiHead, batch_size: int
    ) -> FineTunedState:
        """Pass the gradient on to the regulariser."""
        regulariser = self.regulariser.accumulate_gradient(
            state.regulariser, gradient, batch_size
        )
        return FineTunedState(state.network, state.task, regulariser)

    def end_task(
        self, state: FineTunedState, trainable: MultiHead, key: PRNGKey
    ) -> FineTunedState:
        """Store the network and tell the regulariser."""
        regulariser = self.regulariser.end_task(state.regulariser, trainable)
        return FineTunedState(trainable, state.task, regulariser)

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
