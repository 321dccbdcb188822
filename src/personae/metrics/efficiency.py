"""How fast a task is learned."""

import numpy as np
from jaxtyping import Float, Int


def steps_to_target(
    steps: Int[np.ndarray, " iterations"],
    returns: Float[np.ndarray, " iterations"],
    target: float,
) -> int | None:
    """Return the steps until the training return first reaches the target, or None.

    The paper averages the returns over seeds first and takes 75 % of the optimal
    return as the target.
    """
    reached = np.flatnonzero(returns >= target)
    return int(steps[reached[0]]) if reached.size else None
