"""What an agent would do on a task that it has not trained on yet (paper, Sec. 5.2).

The agent is led along the task's optimal path and asked at each step what it would have
done: the probabilities of all actions tell which knowledge of earlier tasks is reused.
"""

from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from personae.envs.contract import Environment, Solvable
from personae.training.update import Agent, AgentSpec, TaskData
from personae.types import PRNGKey


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


def preview(setting: AgentSpec, agent: Agent, task: TaskData, key: PRNGKey) -> Preview:
    """Lead an agent along the optimal path of the task it is about to train on."""
    env = setting.env
    assert isinstance(env, Solvable)
    assert isinstance(env.action_space, gym.spaces.Discrete)
    every_action = jnp.arange(env.action_space.n)
    network = setting.method.policy(agent.method, agent.live.trainable, task.number)

    def step(carry: Any, key: PRNGKey) -> Any:
        state, observation, on_path = carry
        policy, _ = network(setting.encoder(observation, task.label))
        probabilities = jnp.exp(jax.vmap(policy.log_prob)(every_action))
        action = env.optimal_action(task.params, state)
        state, new = env.step(task.params, state, action, key)
        still = on_path & (new.reward == 0) & ~(new.terminated | new.truncated)
        return (state, new.observation, still), (action, probabilities, on_path)

    start_key, walk_key = jax.random.split(key)
    start = (*env.reset(task.params, start_key), jnp.asarray(True))
    keys = jax.random.split(walk_key, env.longest_solution)
    return Preview(*jax.lax.scan(step, start, keys)[1])
