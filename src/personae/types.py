"""Types of data that several packages share.

Arrays are laid out `[time, agent, env, ...]`; functions here and in the learners
take one agent, and `training` adds the agent axis with `vmap`.
"""

from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import gymnasium as gym
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

Scalar: TypeAlias = Float[Array, ""]
PRNGKey: TypeAlias = Key[Array, ""]
Observation: TypeAlias = PyTree[Array]
Action: TypeAlias = Array
Policy = TypeVar("Policy")
Space: TypeAlias = gym.Space[Any]
"""A space of Gymnasium, whatever its elements are."""
Env: TypeAlias = gym.Env[Any, Any]
"""An environment of Gymnasium, whatever its observations and actions are."""


class WithPreviousStep(NamedTuple):
    """An observation with the action and the reward that led to it."""

    current: Array
    """The observation of the environment."""
    action: Action
    """The previous action; zeros at the start of an episode."""
    reward: Float[Array, "..."]
    """The reward of the previous action; zero at the start of an episode."""


def current_observation(observation: PyTree) -> PyTree:
    """Return the observation without the previous action and reward, if it has them."""
    if isinstance(observation, WithPreviousStep):
        return observation.current
    return observation


class TimeStep(NamedTuple):
    """The answer of an environment to one action."""

    observation: Observation
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    """The task itself ended the episode: nothing is to be gained afterwards."""
    truncated: Bool[Array, ""]
    """A time limit cut the episode: the last state still has a value."""
    success: Bool[Array, ""] | None = None
    """Whether the episode has succeeded so far; None if the environment is silent."""


class Transition(NamedTuple):
    """One step of experience; stacked, `[time, env]`."""

    observation: Observation
    action: Action
    log_prob: Float[Array, "..."]
    """Log-probability of the action under the policy that chose it."""
    value: Float[Array, "..."]
    """Value that the network gave the observation when it acted."""
    reward: Float[Array, "..."]
    done: Bool[Array, "..."]
    """Whether the episode ended with this step: no later value counts for it."""
    valid: Bool[Array, "..."] | None = None
    """Whether the action was used; an environment may use a step to start an episode.
    None means that all steps are valid."""


class WithTask(NamedTuple):
    """An observation with the task that it comes from."""

    observation: Observation
    task: Int[Array, "..."]


class Rollout(NamedTuple):
    """Transitions, `[time, env]`, and the observations that follow the last of them."""

    steps: Transition
    last_observation: Observation


@runtime_checkable
class Distribution(Protocol):
    """The probabilities of actions for one observation, or for a batch of them."""

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

    def divergence(self: Policy, other: Policy) -> Float[Array, "..."]:
        """Return the Kullback-Leibler divergence KL(self || other) in nats."""
        ...


@runtime_checkable
class Network(Protocol):
    """A function from one observation to a policy and a value."""

    def __call__(self, observation: Observation, /) -> tuple[Distribution, Scalar]:
        """Return the distribution of actions and the value of one observation."""
        ...


PolicyAndValue: TypeAlias = tuple[Distribution, Float[Array, "..."]]
"""The outputs of a network for a batch of observations: policies and values."""


class ReplayedSteps(NamedTuple):
    """Steps from a replay store, `[step]`, with the network's outputs at the time."""

    observation: Observation
    policy: Distribution | None
    """The policy that acted; None unless the method asks for it."""
    value: Float[Array, " steps"]
    """The value that the network gave the observation."""
