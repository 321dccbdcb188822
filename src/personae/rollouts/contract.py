"""The contracts of acting on the host: actors collect, evaluators play episodes."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float, PyTree

from personae.curricula import Evaluation
from personae.rollouts.normalise import Statistics
from personae.types import PRNGKey, Rollout

EnvSnapshot: TypeAlias = Mapping[str, np.ndarray]
"""Arrays from which environments on the host can be brought back."""


class BehaviourPolicy(NamedTuple):
    """The networks that act, with everything they depend on, `[agent, ...]`."""

    network: PyTree
    statistics: Statistics
    # Not part of the network, as threads fold their own number into it.
    key: PRNGKey
    """Randomness of actions."""


class CollectedRollout(NamedTuple):
    """A rollout of all agents, `[agent, ...]`."""

    rollout: Rollout
    # Separate from the rewards, which are scaled and clipped first.
    bootstrap: np.ndarray
    """Discounted values of states that a time limit cut off, at each step."""
    measures: Float[np.ndarray, "agents measures"]
    """Mean return and success of the episodes that ended; nan where none did."""
    policy_lag: int | None = None
    """Updates since the policy that acted was current; None where it always is."""

    @property
    def to_learn(self) -> tuple[Rollout, np.ndarray, np.ndarray]:
        """The arrays that an update needs."""
        return self.rollout, self.bootstrap, self.measures


@runtime_checkable
class Actors(Protocol):
    """Acts in the environments of one visit after another, rollout by rollout."""

    @property
    def acts_during_training(self) -> bool:
        """Whether they go on acting while agents learn.

        Evaluations then also run beside the training of the next chunk.
        """
        ...

    def begin(self, visit: int) -> None:
        """Open the environments of a visit."""
        ...

    def collect(self, policy: BehaviourPolicy, visit: int) -> CollectedRollout:
        """Return one rollout of all agents."""
        ...

    def report(self) -> Mapping[str, list[float]] | None:
        """Return statistics of each actor since the last call, if there are several."""
        ...

    def snapshot(self) -> EnvSnapshot | None:
        """Return arrays that bring the environments back, if they can be."""
        ...

    def resume(self, visit: int, snapshot: EnvSnapshot | None) -> None:
        """Bring the environments of a visit back, or open them anew if none can be."""
        ...

    def close(self) -> None:
        """Close all environments."""
        ...


PolicyOfTask: TypeAlias = Callable[[int], BehaviourPolicy]
"""Gives the policies of all agents on a task, by its index."""


@runtime_checkable
class Evaluator(Protocol):
    """Plays episodes of every task with all agents."""

    def evaluate(
        self, policy_of: PolicyOfTask, protocol: Evaluation
    ) -> Float[np.ndarray, "measures agents tasks episodes"]:
        """Return the measures of each episode, tasks in the order of `eval_tasks`."""
        ...

    def close(self) -> None:
        """Close all environments."""
        ...


MakeActors: TypeAlias = Callable[[Any], Actors]
"""Makes actors from a `HostContext`, for callers that choose them."""
