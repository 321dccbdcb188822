"""The contract of an environment in pure JAX.

An environment holds its static parts (shapes, spaces); the differences between tasks
are data, `params`. The tasks of a curriculum are therefore one environment and a stack
of params, and one compiled program serves them all.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt8

from personae.types import Action, Observation, PRNGKey, Space, TimeStep

Params: TypeAlias = PyTree[Array]
State: TypeAlias = PyTree[Array]


@runtime_checkable
class Environment(Protocol):
    """A family of tasks with the same spaces.

    An environment does not reset itself: the caller does so after the end of an
    episode. Both methods are pure functions of one environment, without a batch axis.

    Example:
        state, observation = env.reset(params, reset_key)
        state, step = env.step(params, state, action, step_key)
    """

    @property
    def observation_space(self) -> Space:
        """The space of the observations that `reset` and `step` return."""
        ...

    @property
    def action_space(self) -> Space:
        """The space of the actions that `step` accepts."""
        ...

    @property
    def deterministic(self) -> bool:
        """Whether the same actions always give the same episode."""
        ...

    def reset(self, params: Params, key: PRNGKey) -> tuple[State, Observation]:
        """Start an episode; return its state and the first observation."""
        ...

    def step(
        self, params: Params, state: State, action: Action, key: PRNGKey
    ) -> tuple[State, TimeStep]:
        """Advance one step; return the new state and the answer to the action."""
        ...

    def render(
        self, params: Params, state: State, observation: PyTree[np.ndarray]
    ) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the state for people; runs on the host."""
        ...


@runtime_checkable
class Solvable(Environment, Protocol):
    """An environment that knows optimal policies of its tasks."""

    @property
    def longest_solution(self) -> int:
        """Steps to the reward of the longest of its tasks, if nothing is random."""
        ...

    def optimal_action(self, params: Params, state: State) -> Action:
        """Return the action of an optimal policy."""
        ...


def within_space(space: Space, actions: Action) -> Action:
    """Shape and clip a batch of a policy's actions to an environment's space."""
    if not isinstance(space, gym.spaces.Box):
        return actions
    shaped = actions.reshape(-1, *space.shape)
    return jnp.clip(shaped, space.low, space.high)


@runtime_checkable
class Family(Protocol):
    """A function that builds an environment for a list of tasks."""

    def __call__(
        self, tasks: Sequence[Mapping[str, object]]
    ) -> tuple[Environment, Params]:
        """Build the environment and the stacked params of all tasks.

        Args:
            tasks: The options of each task, as a curriculum states them.
        """
        ...
