"""The contract of a learner, which turns experience into better trainables.

A learner sees one agent and never a method: functions of the trainable alone stand for
it. `training` adds the agent axis with `vmap`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from personae.types import (
    Distribution,
    Network,
    PolicyAndValue,
    PRNGKey,
    ReplayedSteps,
    Rollout,
    Scalar,
)

LearnerState: TypeAlias = PyTree[Array]
"""A learner's own state, such as that of its optimiser."""
Samples: TypeAlias = PyTree[Array]
"""Experience in the form that a learner trains on."""
NetworkOf: TypeAlias = Callable[[PyTree[Array], PRNGKey], Network]
"""A method's `network`, bound to the method's state."""
PenaltyOf: TypeAlias = Callable[[PyTree[Array]], Scalar]
"""A method's `penalty`, bound to the method's state."""
ReplayLossOf: TypeAlias = Callable[
    [PyTree[Array], ReplayedSteps, PolicyAndValue, PRNGKey], Float[Array, " steps"]
]
"""A method's `replay_loss`, bound to the method's state."""


class ReplayBatch(NamedTuple):
    """Unrolls from a replay store, `[unroll, time]`; observations are `WithTask`."""

    unrolls: Rollout
    policy: Distribution | None
    """The policies that acted; None unless the method asks for them."""
    available: Bool[Array, " unrolls"]
    """False while the store is empty; such an unroll holds zeros."""

    @property
    def all_steps(self) -> ReplayedSteps:
        """The steps of all unrolls, one unroll after another."""
        steps = self.unrolls.steps
        replayed = ReplayedSteps(steps.observation, self.policy, steps.value)
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), replayed)

    @property
    def valid(self) -> Bool[Array, "unrolls time"]:
        """The steps to learn from."""
        steps = self.unrolls.steps
        available = jnp.broadcast_to(self.available[:, None], steps.done.shape)
        return available if steps.valid is None else available & steps.valid


class ReplayTerm(NamedTuple):
    """The part of an update that comes from a replay store."""

    batch: ReplayBatch
    network_of: NetworkOf
    """As for a rollout, but its network takes observations that are `WithTask`."""
    loss_of: ReplayLossOf
    off_policy: bool
    """Whether the learner's own loss is taken on replayed unrolls as well."""


def by_env(rollout: Rollout) -> Rollout:
    """Swap the axes of time and environments; twice gives the same rollout again.

    The last observations have no axis of time, so they stay the same.
    """
    swapped = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), rollout.steps)
    return rollout._replace(steps=swapped)


@runtime_checkable
class Learner(Protocol):
    """A reinforcement-learning algorithm for one agent on one task.

    Implementations are frozen dataclasses: their fields are the hyper-parameters.
    """

    # Properties: for type checkers a plain attribute would have to be writable, which
    # the fields of frozen dataclasses are not.
    @property
    def num_envs(self) -> int:
        """Number of environments stepped side by side."""
        ...

    @property
    def rollout_length(self) -> int:
        """Steps in each environment between two updates."""
        ...

    @property
    def discount(self) -> float:
        """Discount factor per step."""
        ...

    @property
    def bootstrap_truncated(self) -> bool:
        """Whether a time limit counts as an interruption, not as the end."""
        ...

    @property
    def off_policy(self) -> bool:
        """Whether the learner can train on experience of much older policies."""
        ...

    def init(self, trainable: PyTree[Array]) -> LearnerState:
        """Return the learner's state at the start of a task."""
        ...

    def update(
        self,
        state: LearnerState,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        penalty_of: PenaltyOf,
        rollout: Rollout,
        progress: Scalar,
        key: PRNGKey,
        replay_term: ReplayTerm | None = None,
    ) -> tuple[LearnerState, PyTree[Array], Mapping[str, Scalar], Samples]:
        """Learn from one rollout.

        Args:
            state: The learner's state.
            trainable: The parameters to improve.
            network_of: The network that a trainable stands for.
            penalty_of: The method's penalty, to be added to the loss.
            rollout: New experience, `[time, env]`.
            progress: The share of the visit to the task that is over, from 0 to 1.
            key: The source of shuffling and random masks.
            replay_term: Replayed experience, if the method wants some.

        Returns:
            The new state; the new trainable; scalars worth logging; and the samples
            that the rollout was turned into, for `batches`.
        """
        ...

    def samples(self, network: Network, rollout: Rollout) -> Samples:
        """Turn a rollout, `[time, env]`, into samples to learn from."""
        ...

    @property
    def batches_per_rollout(self) -> int:
        """Number of batches that `batches` makes of a rollout."""
        ...

    def batches(self, samples: Samples, key: PRNGKey) -> Samples:
        """Shuffle one rollout's samples into batches, `[batch, sample, ...]`."""
        ...

    def gradient(
        self,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        batch: Samples,
        key: PRNGKey,
    ) -> PyTree[Array]:
        """Return the gradient of the loss on one batch, without any penalty.

        Args:
            trainable: The parameters at which to take the gradient.
            network_of: The network that a trainable stands for.
            batch: One of the batches that `batches` returns.
            key: The source of random masks.

        Returns:
            A tree like `trainable`.
        """
        ...
