"""An agent's actions on a task before it has trained on it (paper, Sec. 5.2).

The agent is led along the task's optimal path. Its probabilities of all actions at each
step show which knowledge of earlier tasks it reuses.
"""

from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from personae.envs.contract import Environment, Solvable
from personae.rollouts.device import DeviceActor
from personae.rollouts.task_data import TaskData
from personae.types import Network, Observation, PRNGKey


class Preview(NamedTuple):
    """The optimal actions and the agent's probabilities of all actions."""

    actions: Int[Array, "... steps"]
    probabilities: Float[Array, "... steps actions"]
    counts: Bool[Array, "... steps"]
    """Whether a step lies on the path; paths of other tasks may be longer."""


def can_preview(env: Environment) -> bool:
    """Tell whether the optimal path of a task is known, and the same for all agents."""
    discrete = isinstance(env.action_space, gym.spaces.Discrete)
    return isinstance(env, Solvable) and env.deterministic and discrete


def preview(
    actor: DeviceActor, network: Network, task: TaskData, key: PRNGKey
) -> Preview:
    """Lead an agent along the optimal path of the task it is about to train on."""
    env = actor.env
    assert isinstance(env, Solvable)
    assert isinstance(env.action_space, gym.spaces.Discrete)
    all_actions = jnp.arange(env.action_space.n)

    def step(
        carry: tuple[PyTree, Observation, Bool[Array, ""]], key: PRNGKey
    ) -> tuple[PyTree, tuple[Array, Array, Array]]:
        state, observations, on_path = carry
        policy, _ = network(jax.tree.map(lambda leaf: leaf[0], observations))
        probabilities = jnp.exp(jax.vmap(policy.log_prob)(all_actions))
        action = env.optimal_action(task.params, state)
        state, new = env.step(task.params, state, action, key)
        # Rewards end the path too: what follows a goal is no decision any more.
        goes_on = on_path & (new.reward == 0) & ~(new.terminated | new.truncated)
        following = jax.tree.map(lambda leaf: leaf[None], new.observation)
        following = actor.attach_previous(following, action[None], new.reward[None])
        return (state, following, goes_on), (action, probabilities, on_path)

    start_key, walk_key = jax.random.split(key)
    state, first = env.reset(task.params, start_key)
    observations = actor.without_previous(jax.tree.map(lambda x: x[None], first))
    # As long as the longest of all tasks, since shapes must not differ.
    keys = jax.random.split(walk_key, env.longest_solution)
    start = (state, observations, jnp.asarray(True))
    return Preview(*jax.lax.scan(step, start, keys)[1])
