"""Curricula of ProcGen: six games in cycles, as in CORA (Powers et al., 2022)."""

from dataclasses import replace

from personae.backbones.build import NetworkOptions
from personae.curricula.curriculum import Curriculum
from personae.curricula.options import Evaluation, Hosting, Inputs, Normalisers
from personae.curricula.task import Task
from personae.learners import IMPALA, PPO
from personae.methods import MaskOptions

TARGETS = {
    "climber": 12.6,
    "dodgeball": 19.0,
    "ninja": 10.0,
    "starpilot": 64.0,
    "bigfish": 40.0,
    "fruitbot": 32.4,
}
"""The games in their order, and the highest return of each in easy mode (Cobbe et al.,
2020, appendix C)."""
LEVELS = 200
"""Number of levels of each game that agents are trained on."""
FRAMES = 5_000_000
"""Frames of each visit in the published runs."""
IMAGE_SCALE = 1 / 255
EVALUATION_FRAMES = 250_000
"""Frames between evaluations."""


def game(name: str) -> Task:
    """Return the task of playing a game's first levels, tested on all levels, too."""
    return Task(
        name,
        f"envpool/{name.capitalize()}Easy-v0",
        {"num_levels": LEVELS, "start_level": 0},
        target=TARGETS[name],
        unseen={"num_levels": 0},
    )


def procgen() -> Curriculum:
    """Return ProcGen as in the paper: six games, five visits each, 150M frames."""
    learner = IMPALA()
    steps_per_iteration = learner.num_envs * learner.rollout_length
    return Curriculum(
        id="personae/ProcGen-v0",
        description="ProcGen: six games, five times 5M frames each (paper: ProcGen).",
        tasks=tuple(map(game, TARGETS)),
        steps_per_task=FRAMES,
        cycles=5,
        learner="impala",
        impala=learner,
        # The published runs are of IMPALA only; `--learner ppo` takes this.
        ppo=PPO(num_envs=64, rollout_length=64, num_minibatches=8, learning_rate=5e-4),
        # Note: in the published runs tasks not learned yet had untrained scores, or
        # in LC and BLC the average of these with the scores of all tasks before them.
        masks=MaskOptions(unseen="average"),
        # As published: no label, but the last action and reward.
        inputs=Inputs(IMAGE_SCALE, label_dim=0, previous_step=True),
        network=NetworkOptions((512,), convolutions="nature"),
        normalise=Normalisers(clip_rewards=1.0),
        hosting=Hosting("threads"),
        evaluation=Evaluation(interval=EVALUATION_FRAMES // steps_per_iteration),
    )


def procgen_small() -> Curriculum:
    """Return ProcGen with two visits to each game and a fifth of the frames."""
    return replace(
        procgen(),
        id="personae/ProcGen-Small-v0",
        description="ProcGen: the six games, two times 1M frames each.",
        steps_per_task=FRAMES // 5,
        cycles=2,
    )


def curricula() -> list[Curriculum]:
    """Return all curricula of ProcGen."""
    return [procgen(), procgen_small()]
