"""Measures of a whole life of learning, from its evaluations."""

import numpy as np
from jaxtyping import Float, Int


def total_evaluation(
    returns: Float[np.ndarray, "*agents evaluations tasks"],
) -> Float[np.ndarray, "*agents"]:
    """Return the paper's total evaluation: the plain sum over evaluations and tasks."""
    return np.asarray(np.sum(returns, axis=(-2, -1)))


def ideal_total(
    task_of_evaluation: Int[np.ndarray, " evaluations"],
    targets: Float[np.ndarray, " tasks"],
) -> float:
    """Return the total evaluation of an agent that masters each task at once.

    At every evaluation such an agent has the target return on each task met so far and
    nothing on the others. Zero-shot success on tasks to come can exceed it.
    """
    seen = np.zeros(len(targets), bool)
    total = 0.0
    for task in task_of_evaluation:
        seen[task] = True
        total += float(targets[seen].sum())
    return total
