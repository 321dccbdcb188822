"""The measures of Continual World (Wolczyk et al., 2021), from evaluations alone.

Performance of a moment is the mean over the last five evaluations before it.
"""

import numpy as np
from jaxtyping import Int

from personae.metrics.lifelong import Evaluations, PerTask, first_visits

OfEvaluation = Int[np.ndarray, " evaluations"]

WINDOW = 5
"""Evaluations that are averaged."""


def final_performance(
    evaluations: Evaluations, visit_of_evaluation: OfEvaluation
) -> PerTask:
    """Return each task's performance at the end of life.

    Of the last visit's evaluations only, if they are fewer than five.
    """
    last = visit_of_evaluation == visit_of_evaluation[-1]
    return np.asarray(evaluations[:, last][:, -WINDOW:].mean(1))


def performance_lost(
    evaluations: Evaluations,
    task_of_evaluation: OfEvaluation,
    visit_of_evaluation: OfEvaluation,
) -> PerTask:
    """Return each task's performance after its own training, less that at the end.

    A task that was not trained yet is not a number.
    """
    learned = np.full((evaluations.shape[0], evaluations.shape[2]), np.nan)
    for task in np.unique(task_of_evaluation):
        visit = visit_of_evaluation[task_of_evaluation == task][-1]
        own = evaluations[:, visit_of_evaluation == visit, task]
        learned[:, task] = own[:, -WINDOW:].mean(1)
    return learned - final_performance(evaluations, visit_of_evaluation)


def evaluation_areas(
    evaluations: Evaluations,
    task_of_evaluation: OfEvaluation,
    visit_of_evaluation: OfEvaluation,
) -> PerTask:
    """Return each task's mean evaluation while it was first trained.

    Forward transfer is of these areas here, where the masks' paper takes those of the
    training curves. A task that was not trained yet is not a number.
    """
    areas = np.full((evaluations.shape[0], evaluations.shape[2]), np.nan)
    for task, first in first_visits(task_of_evaluation):
        own = visit_of_evaluation == visit_of_evaluation[first]
        areas[:, task] = evaluations[:, own, task].mean(1)
    return areas
