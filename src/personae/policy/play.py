"""An agent out of a file plays an episode of a task."""

from contextlib import closing
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from personae.envs.foreign import call
from personae.envs.host import ENVPOOL, drawn, make_env
from personae.envs.pooled import PooledEnv
from personae.errors import UsageError
from personae.policy.agent import Agent
from personae.policy.manifest import TaskSpec

LONGEST = 100_000
"""Steps after which an episode is cut."""


class Episode(NamedTuple):
    """What happened in an episode."""

    steps: int
    total: float
    """What it collected."""
    frames: list[np.ndarray]
    """What it looked like, if that was wanted."""


def task_env(spec: TaskSpec, env_id: str | None, **more: Any) -> gym.Env[Any, Any]:
    """Make a task's environment as the file tells, or another one by its id.

    A file may come from a stranger: what would import a module that it names is made
    only if the user names it.
    """
    wanted = env_id or spec.env
    if ":" in wanted and env_id is None:
        raise UsageError(
            f"task {spec.name!r} is played in {spec.env!r}, which imports a module; if "
            f"you trust it, say --env {spec.env}"
        )
    if wanted.startswith(ENVPOOL):
        return PooledEnv(wanted.removeprefix(ENVPOOL), spec.options, **more)
    return make_env(wanted, spec.options, spec.attributes, spec.wrappers, **more)


def play(
    agent: Agent,
    task: str,
    *,
    env_id: str | None = None,
    sample: bool = False,
    seed: int = 0,
    film: bool = False,
    longest: int = LONGEST,
) -> Episode:
    """Play one episode, and draw each step if it is to be filmed."""
    acting = agent.on(task)
    rng = np.random.default_rng(seed)
    more = {"render_mode": "rgb_array"} if film else {}
    with closing(task_env(acting.spec, env_id, **more)) as env:
        shown, _ = call(env.reset, seed=seed)
        frames, total, action, reward = [], 0.0, None, 0.0
        steps, over = 0, False
        while not over and steps < longest:
            if film:
                frames.append(drawn(env, task))
            action = acting.act(
                shown, sample=sample, rng=rng, last_action=action, last_reward=reward
            )
            shown, reward, terminated, truncated, _ = call(env.step, action)
            total += float(reward)
            steps, over = steps + 1, bool(terminated or truncated)
        if film:
            frames.append(drawn(env, task))
    return Episode(steps, total, frames)
