"""Continual World: robot tasks of Meta-World, in the order of Wolczyk et al. (2021)."""

from dataclasses import replace
from typing import Any

from personae.backbones.build import NetworkOptions
from personae.curricula.curriculum import (
    Curriculum,
    Evaluation,
    Hosting,
    Normalisers,
    Task,
)
from personae.envs.meta_world.env import FIXED, Goal
from personae.learners.ppo import PPO
from personae.methods import EWCOptions, MaskOptions

ENV = "personae/MetaWorld-v0"
CW10 = tuple(FIXED)
"""The tasks in their order."""
ROLLOUT = 5_120
PUBLISHED: dict[str, Any] = {
    "steps_per_task": 2_000 * ROLLOUT,
    "network": NetworkOptions((128, 128), "separate"),
    "ppo": PPO(
        num_envs=1,
        rollout_length=ROLLOUT,
        num_minibatches=160,
        optimiser="adam",
        learning_rate=5e-4,
        gae_lambda=0.97,
        clip_ratio=0.2,
        entropy_coefficient=0.005,
        bootstrap_truncated=False,
    ),
    "masks": MaskOptions(rule="continuous"),
    "ewc": EWCOptions(strength=1e4, retention=0.75),
    "evaluation": Evaluation(interval=200, greedy=False, measure="success"),
    # Note: inputs of earlier tasks drift with these, and what was learned with them.
    "normalise": Normalisers(observations=True, rewards=True, shared=True),
    "hosting": Hosting("actors"),
}
"""The settings of the published runs."""
SHORT: dict[str, Any] = {
    "steps_per_task": 200 * ROLLOUT,
    "ppo": replace(PUBLISHED["ppo"], epochs=8),
}
"""A tenth of their steps. Note: with their one epoch too little is made of so few."""


def robot_tasks(goal: Goal, horizon: int) -> tuple[Task, ...]:
    """Return the tasks of CW10."""
    return tuple(
        Task(name, ENV, {"task": name, "goal": goal, "horizon": horizon})
        for name in CW10
    )


def twice(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """Return tasks and, as tasks of their own, the same ones again."""
    return (*tasks, *(replace(task, name=f"{task.name}-again") for task in tasks))


def cw10() -> Curriculum:
    """CW10 as in the paper: goals that never change, long episodes."""
    return Curriculum(
        id="personae/CW10-v0",
        description="Continual World: 10 robot tasks, fixed goals (paper: CW10).",
        tasks=robot_tasks("fixed", 500),
        **PUBLISHED,
    )


def cw10_small() -> Curriculum:
    """CW10 with a tenth of the steps, and normalisers that keep what was learned."""
    return replace(
        cw10(),
        id="personae/CW10-Small-v0",
        description="CW10 with a tenth of the steps: hours instead of days.",
        **SHORT,
        evaluation=Evaluation(40, episodes=4, greedy=False, measure="success"),
        normalise=Normalisers(observations=True, rewards=True),
    )


def cw20() -> Curriculum:
    """CW10 twice, the second time as if the tasks were new."""
    return replace(
        cw10(),
        id="personae/CW20-v0",
        description="Continual World: the 10 robot tasks twice, fixed goals.",
        tasks=twice(cw10().tasks),
    )


def official(curriculum: Curriculum, name: str) -> Curriculum:
    """Return a curriculum by the benchmark's own protocol.

    Other goals in each episode of 200 steps, a million steps for each task, evaluated
    every 20,000. Its published results are of SAC, not of PPO.
    """
    options = {"goal": "random", "horizon": 200}
    return replace(
        curriculum,
        id=f"personae/{name}-v0",
        description=f"{curriculum.short_name.upper()} by Continual World's protocol.",
        tasks=tuple(
            replace(task, options=dict(task.options) | options)
            for task in curriculum.tasks
        ),
        **SHORT,
        evaluation=Evaluation(interval=4, greedy=False, measure="success"),
    )


def curricula() -> list[Curriculum]:
    """Return all of them."""
    ten, twenty = cw10(), cw20()
    of_benchmark = [official(ten, "CW10-Official"), official(twenty, "CW20-Official")]
    return [ten, cw10_small(), twenty, *of_benchmark]
