"""The contract of a lifelong method: what is trained, and what happens between tasks.

A method is a bundle of pure functions over an explicit state, in the manner of optax.
It sees one agent; training adds the agent axis with `vmap`. It never sees an
environment, a loss or an optimiser: those belong to the learner, so every learner works
with every method.

What most methods have no use for (room, penalties, phases, looking back) does nothing
unless a method says otherwise; inherit from `Method` to leave it out.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from personae.errors import require
from personae.types import Network, PolicyAndValue, PRNGKey, ReplayedSteps, Scalar

State: TypeAlias = Any
"""A method's own pytree; it changes between phases and between tasks only."""
Trainable: TypeAlias = PyTree[Array]
"""What the optimiser sees: the part of the agent that changes within a task."""


InputPipeline: TypeAlias = Callable[[Network], Network]
"""Makes a network look at observations as they are remembered."""


@dataclass(frozen=True)
class ReplaySpec:
    """What is kept of a life's experience, and what it is for."""

    frames: int
    """At most so many steps, in whole unrolls."""
    retain: Literal["newest", "any"]
    """Which: the newest, of the current visit only, or a fair sample of all that ever
    were (a reservoir)."""
    share: float = 0.0
    """Memories in an update for each new unroll; 0 if they are for `accumulate_gradient` only."""
    off_policy: bool = False
    """Whether the learner's own loss is taken on them, beside `replay_loss`."""
    with_policy: bool = False
    """Whether what the agent would have done is kept with what it did."""
    gradient_batches: int = 0
    """Batches to look back on when a task ends, before `end_task`."""
    between_phases: bool = False
    """Or between the phases of a task, before `next_phase`, instead."""
    per_sample: bool = False
    """Whether each of their samples is looked back on by itself."""

    def __post_init__(self) -> None:
        require(self.frames >= 1, f"frames must be at least 1, not {self.frames}")

    def unrolls(self, new: int) -> int:
        """Return how many memories come with so many new unrolls."""
        return round(self.share * new)


@dataclass(frozen=True)
class Traits:
    """What training has to know about a method."""

    use_bias: bool
    """Whether the network it is given should have biases."""
    keeps_optimiser: bool = False
    """Whether the optimiser goes on from task to task; otherwise each starts anew."""
    accumulates_gradient: bool = False
    """Whether it looks back on all of a task's experience when the task ends."""
    replay: ReplaySpec | None = None
    """What it remembers, if anything."""
    phases: tuple[float, ...] = (1.0,)
    """Shares of a visit, rounded to whole chunks; between two of them `next_phase` is
    called."""

    def __post_init__(self) -> None:
        fits = min(self.phases) > 0 and math.isclose(sum(self.phases), 1)
        require(fits, f"the phases of a task must add up to 1, not {self.phases}")


@runtime_checkable
class Method(Protocol):
    """How one agent lives through many tasks."""

    @property
    def traits(self) -> Traits:
        """What training has to know."""
        ...

    def init(self, network: eqx.Module, num_tasks: int, key: PRNGKey) -> State:
        """Return the state before the first task, from a freshly built network."""
        ...

    def resize(self, state: State, learned: int) -> State:
        """Make room for `learned` tasks to be kept while another one is trained.

        Shapes may change here and nowhere else, so that programs are compiled again
        only when this returns other shapes. Called before `begin_task` and, with one
        more, before `end_task`.
        """
        return state

    def begin_task(self, state: State, task: Int[Array, ""], key: PRNGKey) -> State:
        """Prepare for training on a task, whether new or met before."""
        ...

    def trainable(self, state: State) -> Trainable:
        """Return what is to be trained, at its value at the start of the phase."""
        ...

    def network(self, state: State, trainable: Trainable, key: PRNGKey) -> Network:
        """Return the network that acts and is differentiated while training."""
        ...

    def penalty(self, state: State, trainable: Trainable) -> Scalar:
        """Return what is added to the learner's loss."""
        return jnp.zeros(())

    def next_phase(self, state: State, trainable: Trainable, key: PRNGKey) -> State:
        """Change over to the next phase of the same task."""
        return state

    def replay_loss(
        self,
        state: State,
        trainable: Trainable,
        pipeline: InputPipeline,
        steps: ReplayedSteps,
        now: PolicyAndValue,
        key: PRNGKey,
    ) -> Float[Array, " steps"]:
        """Return what each step that is remembered adds to the learner's loss.

        `now` is what `network` makes of the steps.
        """
        return jnp.zeros(steps.value.shape)

    def gradient_network(
        self, state: State, trainable: Trainable, key: PRNGKey
    ) -> Network:
        """Return the network whose loss is looked back on: by default what acts."""
        return self.network(state, trainable, key)

    def accumulate_gradient(
        self, state: State, gradient: Trainable, batch_size: int
    ) -> State:
        """Look back on a batch of the task's experience, when the task is over.

        `gradient` is that of the learner's loss on the batch, without the penalty, at
        what was learned. Called for every batch before `end_task`.
        """
        return state

    def end_task(self, state: State, trainable: Trainable, key: PRNGKey) -> State:
        """Keep what was learned on the current task, before the next one is begun.

        After the last task of a life nothing is begun, and this is not called.
        """
        ...

    def policy(
        self, state: State, trainable: Trainable, task: Int[Array, ""]
    ) -> Network:
        """Return the network to evaluate on any task of the curriculum, seen or not."""
        ...

    def fixed(self, state: State) -> Mapping[str, Array]:
        """Return what never changes, by name; empty if there is no such thing.

        It is saved once, and its fingerprint goes with everything that `export` gives.
        """
        return {}

    def export(self, state: State, trainable: Trainable) -> Mapping[str, Array]:
        """Return what the current task leaves on disk when it ends, by name."""
        ...
