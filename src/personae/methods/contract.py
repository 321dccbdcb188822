"""The contract of a lifelong method: what is trained, and what happens between tasks.

A method is a bundle of pure functions over an explicit state, in the manner of optax.
It sees one agent; training adds the agent axis with `vmap`. It never sees an
environment, a loss or an optimiser: those belong to the learner, so every learner works
with every method.
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
"""The part of the agent that changes within a task; the optimiser trains all of it."""
InputPipeline: TypeAlias = Callable[[Network], Network]
"""A function that makes a network take observations in the form of a replay store."""


@dataclass(frozen=True)
class ReplaySpec:
    """The experience that a method wants stored, and the use it makes of it."""

    frames: int
    """Largest number of steps in the store, in whole unrolls."""
    retain: Literal["newest", "any"]
    """newest: the latest unrolls of the current visit. any: a fair sample of all
    unrolls since the first task (a reservoir)."""
    share: float = 0.0
    """Replayed unrolls in an update for each new one; 0 if only `accumulate_gradient`
    uses the store."""
    off_policy: bool = False
    """Whether the learner's own loss is taken on replayed unrolls, beside
    `replay_loss`."""
    with_policy: bool = False
    """Whether the policy that acted is stored with each step."""
    gradient_batches: int = 0
    """Batches for `accumulate_gradient` when a task ends, before `end_task`."""
    between_phases: bool = False
    """Whether these batches come between the phases of a task, before `next_phase`,
    instead of at its end."""
    per_sample: bool = False
    """Whether each sample of these batches is a batch of its own."""

    def __post_init__(self) -> None:
        require(self.frames >= 1, f"frames must be at least 1, not {self.frames}")

    def unrolls(self, new: int) -> int:
        """Return the number of replayed unrolls in an update with `new` new ones."""
        # A whole number for a whole run: shapes are fixed when a program is compiled.
        return round(self.share * new)


@dataclass(frozen=True)
class Traits:
    """The properties of a method on which training depends."""

    use_bias: bool
    """Whether the network for `init` should have biases."""
    keeps_optimiser: bool = False
    """Whether the optimiser's state lasts from task to task; otherwise each task starts
    with a fresh one."""
    accumulates_gradient: bool = False
    """Whether `accumulate_gradient` gets all of a task's experience when it ends."""
    replay: ReplaySpec | None = None
    """The experience to store, if any."""
    phases: tuple[float, ...] = (1.0,)
    """Shares of a visit, rounded to whole chunks; between two of them `next_phase` is
    called."""

    def __post_init__(self) -> None:
        # Not `==`: a sum of shares can miss 1 by a rounding error.
        fits = min(self.phases) > 0 and math.isclose(sum(self.phases), 1)
        require(fits, f"the phases of a task must add up to 1, not {self.phases}")


@runtime_checkable
class Method(Protocol):
    """A lifelong method for one agent.

    An interface with defaults: `resize`, `penalty`, `next_phase`, `replay_loss`,
    `gradient_network`, `accumulate_gradient` and `fixed` do nothing unless a method has
    a use for them. Implementations inherit from `Method` to get these defaults, and
    from nothing else.

    Training calls, for each visit to a task: `resize`, `begin_task`, `trainable`; then
    `network`, `penalty` and `replay_loss` in every update, and `policy` in every
    evaluation; `next_phase` and `trainable` between phases; and at the end `export`,
    `accumulate_gradient` for every batch, `resize` and `end_task`.
    """

    @property
    def traits(self) -> Traits:
        """The properties of the method on which training depends."""
        ...

    def init(self, network: eqx.Module, num_tasks: int, key: PRNGKey) -> State:
        """Return the state before the first task.

        Args:
            network: A freshly built network; the method may draw its weights anew.
            num_tasks: Number of tasks of the curriculum.
            key: The source of the agent's first weights.
        """
        ...

    def resize(self, state: State, learned: int) -> State:
        """Make room for `learned` tasks to be stored while another one is trained.

        Shapes may change here and nowhere else, so that programs are compiled again
        only when this returns other shapes. Called before `begin_task` and, with one
        more, before `end_task`.
        """
        return state

    def begin_task(self, state: State, task: Int[Array, ""], key: PRNGKey) -> State:
        """Prepare for training on a task, whether it is new or was visited before.

        Args:
            state: The state after the last task, or the first one.
            task: The task's index in the curriculum.
            key: The source of fresh weights.
        """
        ...

    def trainable(self, state: State) -> Trainable:
        """Return the parameters to train, with their values at the phase's start."""
        ...

    def network(self, state: State, trainable: Trainable, key: PRNGKey) -> Network:
        """Return the network that acts and is differentiated while training.

        Args:
            state: The method's state.
            trainable: The parameters at this point of the training.
            key: The source of random masks.
        """
        ...

    def penalty(self, state: State, trainable: Trainable) -> Scalar:
        """Return a term to add to the learner's loss, once per update."""
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
        outputs: PolicyAndValue,
        key: PRNGKey,
    ) -> Float[Array, " steps"]:
        """Return a term of the learner's loss for each replayed step.

        Args:
            state: The method's state.
            trainable: The parameters at this point of the training.
            pipeline: Makes a network take the observations in `steps`.
            steps: Replayed steps, with the outputs of the network at the time.
            outputs: The outputs of the current `network` on these steps.
            key: The source of random masks.
        """
        return jnp.zeros(steps.value.shape)

    def gradient_network(
        self, state: State, trainable: Trainable, key: PRNGKey
    ) -> Network:
        """Return the network whose loss gives the gradients to accumulate.

        By default it is the one that acts.
        """
        # Progress & Compress acts with one column, but protects the other.
        return self.network(state, trainable, key)

    def accumulate_gradient(
        self, state: State, gradient: Trainable, batch_size: int
    ) -> State:
        """Take in the gradient on one batch of the task's experience.

        Called for every batch before `end_task`.

        Args:
            state: The method's state.
            gradient: The gradient of the learner's loss, without the penalty, at the
                trainable with which the task ended.
            batch_size: Number of samples in the batch.
        """
        return state

    def end_task(self, state: State, trainable: Trainable, key: PRNGKey) -> State:
        """Store the result of the current task, before the next one begins.

        Not called after the last task of a curriculum, since no other follows.
        """
        ...

    def policy(
        self, state: State, trainable: Trainable, task: Int[Array, ""]
    ) -> Network:
        """Return the network to evaluate on any task of the curriculum.

        Args:
            state: The method's state during a visit.
            trainable: The parameters at this point of the training.
            task: The task to evaluate: the current one, a learned one or another.
        """
        ...

    def fixed(self, state: State) -> Mapping[str, Array]:
        """Return arrays that never change, by name; by default none.

        They are saved once, and their fingerprint goes with every `export`.
        """
        return {}

    def export(self, state: State, trainable: Trainable) -> Mapping[str, Array]:
        """Return the arrays to save when the current task ends, by name."""
        ...
