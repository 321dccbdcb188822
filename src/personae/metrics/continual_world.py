"""The measures of Continual World (Wolczyk et al., 2021), from evaluations alone.

The performance of a task at a time is its mean over the last five evaluations up to
that time. Evaluations are `[agent, evaluation, task]`, and the task and the visit being
trained are given for each of them, `[evaluation]`.
"""

import numpy as np
from jaxtyping import Int

from personae.metrics.lifelong import Evaluations, PerTask, first_visits

OfEvaluation = Int[np.ndarray, " evaluations"]

WINDOW = 5
"""Number of evaluations that are averaged."""


def final_performance(
    evaluations: Evaluations, visit_of_evaluation: OfEvaluation
) -> PerTask:
    """Return each agent's performance on each task at the end of its life.

    It is the mean over the last five evaluations, `[agent, task]`.
    """
    # Evaluations of an earlier visit would mix in the state before the last task.
    last = visit_of_evaluation == visit_of_evaluation[-1]
    return np.asarray(evaluations[:, last][:, -WINDOW:].mean(1))


def performance_lost(
    evaluations: Evaluations,
    task_of_evaluation: OfEvaluation,
    visit_of_evaluation: OfEvaluation,
) -> PerTask:
    """Return how much of its performance each agent lost on each task.

    It is the performance at the end of the task's last visit, less the performance at
    the end of life, `[agent, task]`. A task that was not trained yet is not a number.
    """
    learned = np.full((evaluations.shape[0], evaluations.shape[2]), np.nan)
    for task in np.unique(task_of_evaluation):
        # Of several visits the last one counts: it ends the training of the task.
        visit = visit_of_evaluation[task_of_evaluation == task][-1]
        own = evaluations[:, visit_of_evaluation == visit, task]
        learned[:, task] = own[:, -WINDOW:].mean(1)
    return learned - final_performance(evaluations, visit_of_evaluation)


def evaluation_areas(
    evaluations: Evaluations,
    task_of_evaluation: OfEvaluation,
    visit_of_evaluation: OfEvaluation,
) -> PerTask:
    """Return each agent's mean evaluation on each task during the task's first visit.

    The result is `[agent, task]`. Continual World computes forward transfer from these
    areas; the masks' paper computes it from the training curves. A task that was not
    trained yet is not a number.
    """
    areas = np.full((evaluations.shape[0], evaluations.shape[2]), np.nan)
    for task, first in first_visits(task_of_evaluation):
        own = visit_of_evaluation == visit_of_evaluation[first]
        areas[:, task] = evaluations[:, own, task].mean(1)
    return areas
