"""The contract of a learner: it turns experience into better trainables."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

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

NetworkOf = Callable[[PyTree[Array], PRNGKey], Network]
"""A method's `network` with its state already given."""
Samples: TypeAlias = PyTree[Array]
"""What a learner learns from, in its own form."""
PenaltyOf = Callable[[PyTree[Array]], Scalar]
"""A method's `penalty` with its state already given."""

ReplayLossOf = Callable[
    [PyTree[Array], ReplayedSteps, PolicyAndValue, PRNGKey], Float[Array, " steps"]
]


class ReplayBatch(NamedTuple):
    """Unrolls of long ago, `[unroll, time]`; their observations are `WithTask`."""

    unrolls: Rollout
    policy: Distribution | None
    """What the agent would have done then, if that was kept."""
    available: Bool[Array, " unrolls"]
    """Where not, there is nothing to remember yet."""

    @property
    def all_steps(self) -> ReplayedSteps:
        """The steps of all unrolls, one after another."""
        steps = self.unrolls.steps
        whole = ReplayedSteps(steps.observation, self.policy, steps.value)
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), whole)

    @property
    def counted(self) -> Bool[Array, "unrolls time"]:
        """Which steps are to be learned from."""
        steps = self.unrolls.steps
        known = jnp.broadcast_to(self.available[:, None], steps.done.shape)
        return known if steps.valid is None else known & steps.valid


class ReplayTerm(NamedTuple):
    """What is learned from memories beside a new rollout."""

    memories: ReplayBatch
    network_of: NetworkOf
    """As for a rollout, but of observations that are `WithTask`."""
    loss_of: ReplayLossOf
    """A method's `replay_loss` with its state already given."""
    off_policy: bool
    """Whether the learner's own loss is taken on memories as well."""


def by_env(rollout: Rollout) -> Rollout:
    """Return a rollout as unrolls, with the environments in front, or the reverse.

    What came after has no time, so it is the same in both.
    """
    swapped = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), rollout.steps)
    return rollout._replace(steps=swapped)


@runtime_checkable
class Learner(Protocol):
    """A reinforcement-learning algorithm for one agent on one task."""

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
        """Whether it can learn from experience of policies of long ago."""
        ...

    def init(self, trainable: PyTree[Array]) -> Any:
        """Return the learner's state at the start of a task."""
        ...

    def update(
        self,
        state: Any,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        penalty_of: PenaltyOf,
        rollout: Rollout,
        progress: Scalar,
        key: PRNGKey,
        replay_term: ReplayTerm | None = None,
    ) -> tuple[Any, PyTree[Array], Mapping[str, Scalar], Samples]:
        """Learn from one rollout; also return scalars worth logging, and what the
        rollout was turned into, for `batches` to cut up again.

        `progress` is the share of the visit to the task that is over.
        """  # noqa: D205
        ...

    def samples(self, network: Network, rollout: Rollout) -> Samples:
        """Turn a rollout into what is learned from."""
        ...

    @property
    def batches_per_rollout(self) -> int:
        """How many batches a rollout is cut into."""
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
        """Return the gradient of the loss on one batch, without any penalty."""
        ...
