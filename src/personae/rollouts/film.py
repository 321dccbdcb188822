"""One episode of one agent, drawn step by step."""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import UInt8

from personae.envs.contract import within_space
from personae.training.update import Agent, AgentSpec, TaskData

LONGEST_FILM = 1000
"""Steps after which a film is cut."""


class Film(NamedTuple):
    """One episode, to look at."""

    frames: list[UInt8[np.ndarray, "height width 3"]]
    total: float
    """What it collected."""
    whole: bool
    """Whether the episode ended, and was not cut."""


def play_film(
    setting: AgentSpec, agent: Agent, task: TaskData, greedy: bool, key: Any
) -> Film:
    """Play one episode in a JAX environment, and draw each step."""
    env = setting.env
    policy_of = partial(setting.method.policy, agent.method, agent.live.trainable)
    network = jax.jit(policy_of)(task.number)

    @jax.jit
    def advance(state: Any, observation: Any, key: Any) -> Any:
        act_key, env_key = jax.random.split(key)
        policy, _ = network(setting.encoder(observation, task.label))
        action = policy.mode() if greedy else policy.sample(act_key)
        action = within_space(env.action_space, action[None])[0]
        return env.step(task.params, state, action, env_key)

    key, start_key = jax.random.split(key)
    state, observation = jax.jit(env.reset)(task.params, start_key)
    frames, total = [env.render(task.params, state, np.asarray(observation))], 0.0
    for step_key in jax.random.split(key, LONGEST_FILM):
        state, new = advance(state, observation, step_key)
        observation = new.observation
        frames.append(env.render(task.params, state, np.asarray(observation)))
        total += float(new.reward)
        if new.terminated or new.truncated:
            return Film(frames, total, whole=True)
    return Film(frames, total, whole=False)
