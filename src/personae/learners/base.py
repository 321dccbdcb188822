"""The contract of a learner: it turns experience into better trainables."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Array, PyTree

from personae.types import Network, PRNGKey, Rollout, Scalar

NetworkOf = Callable[[PyTree[Array], PRNGKey], Network]
"""A method's `network` with its state already given."""
Samples: TypeAlias = PyTree[Array]
"""What a learner learns from, in its own form."""
PenaltyOf = Callable[[PyTree[Array]], Scalar]
"""A method's `penalty` with its state already given."""


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
    ) -> tuple[Any, PyTree[Array], Mapping[str, Scalar], Samples]:
        """Learn from one rollout; also return scalars worth logging, and what the
        rollout was turned into, for `batches` to cut up again.

        `progress` is the share of the visit to the task that is over.
        """  # noqa: D205
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
