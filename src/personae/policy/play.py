"""An agent out of a file plays an episode of a task."""

from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from personae.envs.adapters.envpool import ENVPOOL, EnvPoolEnv
from personae.envs.adapters.gymnasium import make_env, render_frame
from personae.envs.third_party import call
from personae.errors import require
from personae.policy.agent import Agent
from personae.policy.manifest import TaskSpec

LONGEST, LONGEST_FILM = 100_000, 1000
"""Steps after which an episode is cut, and one that is filmed."""


class Episode(NamedTuple):
    """What happened in an episode."""

    steps: int
    total: float
    """What it collected."""
    whole: bool
    """Whether it ended, and was not cut."""
    frames: list[np.ndarray]
    """What it looked like, if that was wanted."""


def make_task_env(
    spec: TaskSpec, env_id: str | None, trust: bool, **more: Any
) -> gym.Env[Any, Any]:
    """Make a task's environment as the file tells, or another one by its id.

    A file may come from a stranger: what could do harm is made only if it is trusted.
    """
    if env_id is not None:
        spec = replace(spec, env=env_id, options={}, attributes=None, wrappers=None)
    elif not trust:
        _check_harmless(spec)
    if spec.env.startswith(ENVPOOL):
        return EnvPoolEnv(spec.env.removeprefix(ENVPOOL), spec.options, **more)
    return make_env(spec.env, spec.options, spec.attributes, spec.wrappers, **more)


def _check_harmless(spec: TaskSpec) -> None:
    """Refuse what may import a module, open files or change what an environment is."""
    options = {name: repr(value) for name, value in spec.options.items()}
    doubts = {
        f"env {spec.env}": ":" in spec.env,
        "attributes": bool(spec.attributes),
        "wrappers": bool(spec.wrappers),
        **{
            f"option {name}": set("/\\.") & set(text) and "'" in text
            for name, text in options.items()
        },
    }
    found = [what for what, doubtful in doubts.items() if doubtful]
    require(
        not found,
        f"task {spec.name!r} is played in an environment that may import modules or "
        f"open files ({', '.join(found)}): say --trust if you know whose file this is",
    )


def play(
    agent: Agent,
    task: str,
    *,
    env_id: str | None = None,
    trust: bool = False,
    sample: bool = False,
    seed: int = 0,
    film: bool = False,
) -> Episode:
    """Play one episode, and draw each step if it is to be filmed."""
    acting = agent.on(task)
    rng = np.random.default_rng(seed)
    more = {"render_mode": "rgb_array"} if film else {}
    longest = LONGEST_FILM if film else LONGEST
    world = call(make_task_env, acting.spec, env_id, trust, **more)
    with closing(world) as env:
        shown, _ = call(env.reset, seed=seed)
        frames, total, action, reward = [], 0.0, None, 0.0
        steps, over = 0, False
        while not over and steps < longest:
            if film:
                frames.append(render_frame(env, task))
            action = acting.act(
                shown, sample=sample, rng=rng, last_action=action, last_reward=reward
            )
            shown, reward, terminated, truncated, _ = call(env.step, action)
            total += float(reward)
            steps, over = steps + 1, bool(terminated or truncated)
        if film:
            frames.append(render_frame(env, task))
    return Episode(steps, total, over, frames)
