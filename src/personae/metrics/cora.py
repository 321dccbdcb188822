"""The measures of CORA (Powers et al., 2022): what each visit does to every other task.

All are of the first cycle, of curves smoothed over the last twenty evaluations (or the
visit's, if these are fewer), as shares of the largest value that any agent of the
method ever reached on the task, and times ten.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from personae.metrics.lifelong import Evaluations

WINDOW = 20
"""Evaluations that are averaged; fewer if a visit has fewer, to tell visits apart."""
SCALE = 10.0
"""What every number is multiplied with."""
Matrices = Float[np.ndarray, "agents tasks visits"]


def smoothed(
    evaluations: Evaluations, window: int | Int[np.ndarray, " evaluations"]
) -> Evaluations:
    """Return the mean over the last evaluations up to each one."""
    count = evaluations.shape[1]
    means = [
        evaluations[:, max(0, last - back + 1) : last + 1].mean(1)
        for last, back in enumerate(np.broadcast_to(window, count))
    ]
    return np.stack(means, 1)


def _changes(
    evaluations: Evaluations, visit_of_evaluation: Int[np.ndarray, " evaluations"]
) -> Matrices:
    """Return what each visit of the first cycle adds to each task's curve."""
    of_its_visit = np.bincount(visit_of_evaluation)[visit_of_evaluation]
    curves = smoothed(evaluations, np.minimum(WINDOW, of_its_visit))
    tasks = curves.shape[2]
    found = np.full((len(curves), tasks, tasks), np.nan)
    before = curves[:, 0]
    for visit in np.unique(visit_of_evaluation)[:tasks]:
        after = curves[:, np.flatnonzero(visit_of_evaluation == visit)[-1]]
        found[:, :, visit] = after - before
        before = after
    largest = np.abs(curves).max((0, 1))
    share = found / np.where(largest > 0, largest, np.nan)[:, None]
    return np.asarray(SCALE * share)


def isolated_forgetting(
    evaluations: Evaluations, visit_of_evaluation: Int[np.ndarray, " evaluations"]
) -> Matrices:
    """Return what a task loses while a later one is trained; else not a number."""
    lost = -_changes(evaluations, visit_of_evaluation)
    return np.where(_later(lost.shape[1]), lost, np.nan)


def isolated_transfer(
    evaluations: Evaluations, visit_of_evaluation: Int[np.ndarray, " evaluations"]
) -> Matrices:
    """Return what a task gains while an earlier one is trained; else not a number."""
    gained = _changes(evaluations, visit_of_evaluation)
    return np.where(_later(gained.shape[1]).T, gained, np.nan)


def _later(tasks: int) -> Bool[np.ndarray, "tasks visits"]:
    """Tell for each task which visits of the first cycle come after its own."""
    return np.triu(np.ones((tasks, tasks), bool), 1)
