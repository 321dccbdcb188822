"""The contract of a lifelong method: what is trained, and what happens between tasks.

A method is a bundle of pure functions over an explicit state, in the manner of optax.
It sees one agent; training adds the agent axis with `vmap`. It never sees an
environment, a loss or an optimiser: those belong to the learner, so every learner works
with every method.
"""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Int, PyTree

from personae.types import Network, PRNGKey, Rollout, Scalar

State: TypeAlias = Any
"""A method's own pytree; it changes in `begin_task` and `end_task` only."""
Trainable: TypeAlias = PyTree[Array]
"""What the optimiser sees: the part of the agent that changes within a task."""


@runtime_checkable
class Method(Protocol):
    """How one agent lives through many tasks."""

    @property
    def use_bias(self) -> bool:
        """Whether the network it is given should have biases."""
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
        ...

    def begin_task(self, state: State, task: Int[Array, ""], key: PRNGKey) -> State:
        """Prepare for training on a task, whether new or met before."""
        ...

    def trainable(self, state: State) -> Trainable:
        """Return what is to be trained, at its value at the start of the task."""
        ...

    def network(self, state: State, trainable: Trainable, key: PRNGKey) -> Network:
        """Return the network that acts and is differentiated while training."""
        ...

    def penalty(self, state: State, trainable: Trainable) -> Scalar:
        """Return what is added to the learner's loss; zero for most methods."""
        ...

    def end_task(
        self,
        state: State,
        trainable: Trainable,
        experience: Rollout | None,
        key: PRNGKey,
    ) -> State:
        """Keep what was learned on the current task."""
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
        ...

    def export(self, state: State, trainable: Trainable) -> Mapping[str, Array]:
        """Return what the current task leaves on disk when it ends, by name."""
        ...
