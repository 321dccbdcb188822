"""The measures of Continual World (Wolczyk et al., 2021), from evaluations alone.

Performance of a moment is the mean over the last five evaluations before it.
"""

import numpy as np
from jaxtyping import Int

from personae.metrics.lifelong import Evaluations, PerTask

WINDOW = 5
"""Evaluations that are averaged."""


def final_performance(evaluations: Evaluations) -> PerTask:
    """Return each task's performance at the end of life."""
    return np.asarray(evaluations[:, -WINDOW:].mean(1))


def performance_lost(
    evaluations: Evaluations, task_of_evaluation: Int[np.ndarray, " evaluations"]
) -> PerTask:
    """Return each task's performance after its own training, less that at the end.

    A task that was not trained yet is not a number.
    """
    learned = np.full((evaluations.shape[0], evaluations.shape[2]), np.nan)
    for task in np.unique(task_of_evaluation):
        own = evaluations[:, task_of_evaluation == task, task]
        learned[:, task] = own[:, -WINDOW:].mean(1)
    return learned - final_performance(evaluations)


def evaluation_areas(
    evaluations: Evaluations, task_of_evaluation: Int[np.ndarray, " evaluations"]
) -> PerTask:
    """Return each task's mean evaluation while it was trained.

    Forward transfer is of these areas here, where the masks' paper takes those of the
    training curves. A task that was not trained yet is not a number.
    """
    areas = np.full((evaluations.shape[0], evaluations.shape[2]), np.nan)
    for task in np.unique(task_of_evaluation):
        areas[:, task] = evaluations[:, task_of_evaluation == task, task].mean(1)
    return areas
