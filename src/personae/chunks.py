"""How a visit is cut into chunks: iterations up to an evaluation."""

import math
from collections.abc import Mapping
from typing import Any


def steps_per_iteration(curriculum: Mapping[str, Any]) -> int:
    """Return the environment steps of an iteration, of a curriculum in run.json."""
    learner = curriculum[curriculum.get("learner", "ppo")]
    return int(learner["num_envs"] * learner["rollout_length"])


def chunk_lengths(steps: int, steps_per_iteration: int, interval: int) -> list[int]:
    """Return the iterations of each chunk; the last may be shorter."""
    iterations = math.ceil(steps / steps_per_iteration)
    full, rest = divmod(iterations, interval)
    return [interval] * full + [rest] * (rest > 0)
