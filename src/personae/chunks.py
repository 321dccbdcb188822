"""The division of a visit into chunks, the iterations up to an evaluation.

It is here, and not with the training, because reports need it and must not import JAX.
"""

import math

from personae.serialise import PlainData


def steps_per_iteration(curriculum: PlainData) -> int:
    """Return the environment steps of an iteration, from a curriculum in run.json."""
    # PPO, the default, is left out of run.json.
    learner = curriculum[curriculum.get("learner", "ppo")]
    return int(learner["num_envs"] * learner["rollout_length"])


def chunk_lengths(steps: int, steps_per_iteration: int, interval: int) -> list[int]:
    """Return the iterations of each chunk; the last may be shorter."""
    iterations = math.ceil(steps / steps_per_iteration)
    full, rest = divmod(iterations, interval)
    return [interval] * full + [rest] * (rest > 0)
