"""Helpers of the contract for JAX environments."""

import gymnasium as gym
import jax.numpy as jnp
import numpy as np

from personae.envs.contract import within_space


def test_continuous_actions_are_shaped_and_clipped():
    space = gym.spaces.Box(np.float32([[-1, -2]]), np.float32([[1, 2]]))
    actions = within_space(space, jnp.array([[-3.0, 0.5], [0.25, 9.0]]))
    np.testing.assert_array_equal(actions, [[[-1, 0.5]], [[0.25, 2]]])


def test_discrete_actions_do_not_change():
    actions = jnp.array([0, 2])
    assert within_space(gym.spaces.Discrete(3), actions) is actions
