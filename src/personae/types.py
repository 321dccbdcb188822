"""The few shapes of data that every part of the house shares.

Arrays are laid out `[time, agent, env, ...]`; functions here and in the learners
see one agent, and the agent axis is added by `vmap` in `training`.
"""

from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import gymnasium as gym
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

Scalar: TypeAlias = Float[Array, ""]
PRNGKey: TypeAlias = Key[Array, ""]
Observation: TypeAlias = PyTree[Array]
Action: TypeAlias = Array
Space: TypeAlias = gym.Space[Any]
"""A space of Gymnasium, whatever its elements are."""
Env: TypeAlias = gym.Env[Any, Any]
"""An environment of Gymnasium, whatever it shows and takes."""


class WithPreviousStep(NamedTuple):
    """An observation with the action and the reward that led to it."""

    shown: Array
    action: Action
    reward: Float[Array, "..."]


def shown(observation: Any) -> Any:
    """Return what the environment shows, without what is remembered beside it."""
    return (
        observation.shown if isinstance(observation, WithPreviousStep) else observation
    )


class TimeStep(NamedTuple):
    """The answer of an environment to one action."""

    observation: Observation
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    """The task itself ended the episode: nothing is to be gained afterwards."""
    truncated: Bool[Array, ""]
    """A time limit cut the episode: the last state still has a value."""
    success: Bool[Array, ""] | None = None
    """Whether the episode has succeeded so far; None if the environment does not
    say."""


class Transition(NamedTuple):
    """One step of experience as the learner sees it; stacked, `[time, env]`."""

    observation: Observation
    action: Action
    log_prob: Float[Array, "..."]
    """Log-probability of the action under the policy that acted."""
    value: Float[Array, "..."]
    reward: Float[Array, "..."]
    done: Bool[Array, "..."]
    """Whether nothing follows this step, so that no value is carried back over it."""
    valid: Bool[Array, "..."] | None = None
    """Where not, no action was taken: the environment used the step to start anew."""


class WithTask(NamedTuple):
    """An observation, and the task in which it was made."""

    seen: Observation
    task: Int[Array, "..."]


class Rollout(NamedTuple):
    """A stretch of experience: `[time, env]` transitions, and what came after."""

    steps: Transition
    last_observation: Observation


@runtime_checkable
class Distribution(Protocol):
    """A policy's opinion about one observation, or a batch of them."""

    def sample(self, key: PRNGKey) -> Action:
        """Draw an action."""
        ...

    def mode(self) -> Action:
        """Return the most likely action."""
        ...

    def log_prob(self, action: Action) -> Float[Array, "..."]:
        """Return the log-probability of an action."""
        ...

    def entropy(self) -> Float[Array, "..."]:
        """Return the entropy in nats."""
        ...

    def divergence(self, other: Any) -> Float[Array, "..."]:
        """Return the Kullback-Leibler divergence of another one of its kind from it."""
        ...


@runtime_checkable
class Network(Protocol):
    """What acts: one observation in, a policy and a value out."""

    def __call__(self, observation: Observation, /) -> tuple[Distribution, Scalar]:
        """Return the policy's distribution and the value of one observation."""
        ...


PolicyAndValue: TypeAlias = tuple[Distribution, Float[Array, "..."]]
"""What a network makes of several observations: policies and values."""


class ReplayedSteps(NamedTuple):
    """Steps of long ago, `[step]`: what was seen, and what was thought of it then."""

    observation: Observation
    policy: Distribution | None
    value: Float[Array, " steps"]
