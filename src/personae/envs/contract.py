"""The contract of an environment in pure JAX.

An environment holds what is static (shapes, spaces); what makes one task differ from
another is data, `params`. The tasks of a curriculum are therefore one environment and a
stack of params, and one compiled program serves them all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt8

from personae.types import Action, Observation, PRNGKey, TimeStep

Params: TypeAlias = PyTree[Array]
State: TypeAlias = Any


@runtime_checkable
class Environment(Protocol):
    """A family of tasks with the same spaces; resets are the caller's business."""

    @property
    def observation_space(self) -> gym.Space[Any]:
        """Space of what `reset` and `step` show."""
        ...

    @property
    def action_space(self) -> gym.Space[Any]:
        """Space of what `step` takes."""
        ...

    @property
    def deterministic(self) -> bool:
        """Whether the same actions always give the same episode."""
        ...

    def reset(self, params: Params, key: PRNGKey) -> tuple[State, Observation]:
        """Start an episode."""
        ...

    def step(
        self, params: Params, state: State, action: Action, key: PRNGKey
    ) -> tuple[State, TimeStep]:
        """Advance one step; after the end of an episode the caller resets."""
        ...

    def render(
        self, params: Params, state: State, observation: Any
    ) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the state for people; on the host, with the observation in numpy."""
        ...


@runtime_checkable
class Solvable(Environment, Protocol):
    """An environment that knows how its tasks are solved."""

    @property
    def longest_solution(self) -> int:
        """Steps to the reward of the longest of its tasks, if nothing is random."""
        ...

    def optimal_action(self, params: Params, state: State) -> Action:
        """Return what an optimal policy does."""
        ...


def within_space(space: gym.Space[Any], actions: Action) -> Action:
    """Shape and clip a batch of a policy's actions to what an environment accepts."""
    if not isinstance(space, gym.spaces.Box):
        return actions
    shaped = actions.reshape(-1, *space.shape)
    return jnp.clip(shaped, space.low, space.high)


@runtime_checkable
class Family(Protocol):
    """Builds the environment that covers a list of tasks, and their stacked params."""

    def __call__(
        self, tasks: Sequence[Mapping[str, Any]]
    ) -> tuple[Environment, Params]:
        """Build from each task's options."""
        ...
