"""The sample efficiency of learning a task."""

import numpy as np
from jaxtyping import Float, Int


def steps_to_target(
    steps: Int[np.ndarray, " iterations"],
    returns: Float[np.ndarray, " iterations"],
    target: float,
) -> int | None:
    """Return the environment steps at which the return first reaches a target, or None.

    The paper takes 75 % of the optimal return as the target.

    Args:
        steps: Environment steps at the end of each iteration, `[iteration]`.
        returns: Training return of each iteration, `[iteration]`, such as the mean over
            seeds.
        target: The return to reach.
    """
    # Once is enough, even if the return falls again afterwards.
    reached = np.flatnonzero(returns >= target)
    return int(steps[reached[0]]) if reached.size else None
