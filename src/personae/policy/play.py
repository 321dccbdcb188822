"""Episodes of a task, played by an agent of a file."""

from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from personae.envs.adapters.envpool import ENVPOOL, EnvPoolEnv
from personae.envs.adapters.gymnasium import make_env, render_frame
from personae.envs.third_party import call
from personae.errors import require
from personae.policy.agent import Agent
from personae.policy.manifest import TaskSpec
from personae.types import Env

MAX_STEPS, MAX_FILM_STEPS = 100_000, 1000
"""Steps after which an episode is cut, without and with a film: not every environment
has a time limit."""


class Episode(NamedTuple):
    """The outcome of an episode."""

    steps: int
    total: float
    """The sum of its rewards."""
    whole: bool
    """Whether the environment ended it; otherwise it was cut."""
    frames: list[np.ndarray]
    """Its images, if it was filmed."""


def make_task_env(
    spec: TaskSpec, env_id: str | None, trust: bool, **options: Any
) -> Env:
    """Make the environment that a file names, or another one by its id.

    A file may come from a stranger: an environment that could do harm is made only if
    the file is trusted.
    """
    if env_id is not None:
        spec = replace(spec, env=env_id, options={}, attributes=None, wrappers=None)
    elif not trust:
        _check_harmless(spec)
    if spec.env.startswith(ENVPOOL):
        return EnvPoolEnv(spec.env.removeprefix(ENVPOOL), spec.options, **options)
    return make_env(spec.env, spec.options, spec.attributes, spec.wrappers, **options)


def _check_harmless(spec: TaskSpec) -> None:
    """Refuse specs that may import a module, open files or change an environment."""
    options = {name: repr(value) for name, value in spec.options.items()}
    doubts = {
        # Gymnasium imports the module before the colon.
        f"env {spec.env}": ":" in spec.env,
        "attributes": bool(spec.attributes),
        "wrappers": bool(spec.wrappers),
        **{
            # A text with such characters may be a path or a module.
            f"option {name}": set("/\\.") & set(text) and "'" in text
            for name, text in options.items()
        },
    }
    reasons = [name for name, doubtful in doubts.items() if doubtful]
    require(
        not reasons,
        f"task {spec.name!r} is played in an environment that may import modules or "
        f"open files ({', '.join(reasons)}): say --trust if you know whose file this "
        "is",
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
    """Play one episode of a task.

    Args:
        agent: The agent.
        task: The task's name.
        env_id: Another environment than the file's, by its id.
        trust: Make the file's environment even if that may import modules or open
            files.
        sample: Draw actions instead of taking the most likely ones.
        seed: Of the environment and of the actions.
        film: Render an image of each step.
    """
    task_agent = agent.on(task)
    # With one seed for both, an episode can be repeated.
    rng = np.random.default_rng(seed)
    options = {"render_mode": "rgb_array"} if film else {}
    max_steps = MAX_FILM_STEPS if film else MAX_STEPS
    # `call` turns errors of other people's environments into messages about them.
    with closing(call(make_task_env, task_agent.spec, env_id, trust, **options)) as env:
        observation, _ = call(env.reset, seed=seed)
        frames, total, action, reward = [], 0.0, None, 0.0
        steps, over = 0, False
        while not over and steps < max_steps:
            if film:
                frames.append(render_frame(env, task))
            action = task_agent.act(
                observation,
                sample=sample,
                rng=rng,
                last_action=action,
                last_reward=reward,
            )
            step = call(env.step, action)
            observation, reward, terminated, truncated, _ = step
            total += float(reward)
            steps, over = steps + 1, bool(terminated or truncated)
        if film:
            frames.append(render_frame(env, task))
    return Episode(steps, total, over, frames)
