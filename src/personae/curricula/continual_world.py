"""Curricula of Continual World: robot tasks in the order of Wolczyk et al. (2021)."""

from dataclasses import replace

from personae.backbones.build import NetworkOptions
from personae.curricula.curriculum import Curriculum
from personae.curricula.options import Evaluation, Hosting, Normalisers
from personae.curricula.task import Task
from personae.envs.meta_world.env import FIXED, Goal
from personae.learners.ppo import PPO
from personae.methods import EWCOptions, MaskOptions

ENV = "personae/MetaWorld-v0"
CW10 = tuple(FIXED)
"""The names of the tasks in their order."""
ROLLOUT = 5_120
"""Environment steps of an iteration, by which steps per task are counted."""
PUBLISHED_PPO = PPO(
    num_envs=1,
    rollout_length=ROLLOUT,
    num_minibatches=160,
    optimiser="adam",
    learning_rate=5e-4,
    gae_lambda=0.97,
    clip_ratio=0.2,
    entropy_coefficient=0.005,
    bootstrap_truncated=False,
)
SHORT_STEPS = 200 * ROLLOUT
"""Steps per task of the curricula that have a tenth of the published ones."""
SHORT_PPO = replace(PUBLISHED_PPO, epochs=8)
"""Their learner. Note: the published single epoch learns too little from so few."""


def robot_tasks(goal: Goal, horizon: int) -> tuple[Task, ...]:
    """Return the tasks of CW10."""
    return tuple(
        Task(name, ENV, {"task": name, "goal": goal, "horizon": horizon})
        for name in CW10
    )


def twice(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """Return the tasks followed by their copies, which are tasks of their own."""
    # Not two cycles, which would go on with the masks of the first time.
    return (*tasks, *(replace(task, name=f"{task.name}-again") for task in tasks))


def cw10() -> Curriculum:
    """Return CW10 as in the paper: goals that never change, long episodes."""
    return Curriculum(
        id="personae/CW10-v0",
        description="Continual World: 10 robot tasks, fixed goals (paper: CW10).",
        tasks=robot_tasks("fixed", 500),
        steps_per_task=2_000 * ROLLOUT,
        network=NetworkOptions((128, 128), "separate"),
        ppo=PUBLISHED_PPO,
        masks=MaskOptions(rule="continuous"),
        # Note: the published code had another network for EWC, one body of three layers
        # of 200 units with ReLU; the paper's table has this one for all.
        ewc=EWCOptions(strength=1e4, retention=0.75),
        # Evaluations sample, as published; those of the other benchmarks are greedy.
        evaluation=Evaluation(interval=200, greedy=False, measure="success"),
        # Note: shared statistics drift with each task, so old tasks are forgotten in
        # part.
        normalise=Normalisers(observations=True, rewards=True, shared=True),
        # Physics is slow: no agent should wait for another at each step.
        hosting=Hosting("actors"),
    )


def cw10_small() -> Curriculum:
    """Return CW10 with a tenth of the steps, and with normalisers of each task."""
    return replace(
        cw10(),
        id="personae/CW10-Small-v0",
        description="CW10 with a tenth of the steps: hours instead of days.",
        steps_per_task=SHORT_STEPS,
        ppo=SHORT_PPO,
        # Fewer episodes, as evaluations come five times as often as in the paper.
        evaluation=Evaluation(40, episodes=4, greedy=False, measure="success"),
        normalise=Normalisers(observations=True, rewards=True),
    )


def cw20() -> Curriculum:
    """Return CW10 twice; the second ten count as new tasks."""
    return replace(
        cw10(),
        id="personae/CW20-v0",
        description="Continual World: the 10 robot tasks twice, fixed goals.",
        tasks=twice(cw10().tasks),
    )


def official(curriculum: Curriculum, name: str) -> Curriculum:
    """Return a curriculum with the benchmark's own protocol.

    Each episode has 200 steps and a goal of its own. Each task has about a million
    steps, with an evaluation every 20,000. Its published results are of SAC, not PPO.
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
        steps_per_task=SHORT_STEPS,
        ppo=SHORT_PPO,
        evaluation=Evaluation(interval=4, greedy=False, measure="success"),
    )


def curricula() -> list[Curriculum]:
    """Return all curricula of Continual World."""
    ten, twenty = cw10(), cw20()
    benchmark = [official(ten, "CW10-Official"), official(twenty, "CW20-Official")]
    return [ten, cw10_small(), twenty, *benchmark]
