"""The measures of CORA (Powers et al., 2022): the effect of each visit on other tasks.

All are taken in the first cycle, on curves smoothed over the last twenty evaluations
(or the visit's, if these are fewer). They are shares of the largest absolute value that
any agent of the method reached on the task, times ten.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from personae.metrics.lifelong import Evaluations

WINDOW = 20
"""Number of evaluations that are averaged."""
SCALE = 10.0
"""Factor on all measures, as published."""
Matrices = Float[np.ndarray, "agents tasks visits"]


def smoothed(
    evaluations: Evaluations, window: int | Int[np.ndarray, " evaluations"]
) -> Evaluations:
    """Return the running mean of evaluations, `[agent, evaluation, task]`.

    Entry e is the mean over the `window` evaluations that end with e, or over all up to
    e if these are fewer. The window is one number, or one per evaluation.
    """
    count = evaluations.shape[1]
    means = [
        evaluations[:, max(0, last - back + 1) : last + 1].mean(1)
        for last, back in enumerate(np.broadcast_to(window, count))
    ]
    return np.stack(means, 1)


def _changes(
    evaluations: Evaluations, visit_of_evaluation: Int[np.ndarray, " evaluations"]
) -> Matrices:
    """Return the change of each task's curve in each visit of the first cycle.

    The result is `[agent, task, visit]`, scaled as the module says. Visits that have
    not begun are not numbers, and neither are tasks on which nothing was ever reached.
    """
    # A window longer than a visit would credit its changes to the next visit.
    visit_lengths = np.bincount(visit_of_evaluation)[visit_of_evaluation]
    curves = smoothed(evaluations, np.minimum(WINDOW, visit_lengths))
    tasks = curves.shape[2]
    changes = np.full((len(curves), tasks, tasks), np.nan)
    # As published, the first visit counts from its first evaluation.
    before = curves[:, 0]
    for visit in np.unique(visit_of_evaluation)[:tasks]:
        after = curves[:, np.flatnonzero(visit_of_evaluation == visit)[-1]]
        changes[:, :, visit] = after - before
        before = after
    # A task without any return has no scale, so its measures are not numbers.
    # As published, the scale is of all cycles, although changes are of the first.
    largest = np.abs(curves).max((0, 1))
    share = changes / np.where(largest > 0, largest, np.nan)[:, None]
    return np.asarray(SCALE * share)


def isolated_forgetting(
    evaluations: Evaluations, visit_of_evaluation: Int[np.ndarray, " evaluations"]
) -> Matrices:
    """Return the loss on each task in each visit to a later task of the first cycle.

    The result is `[agent, task, visit]`: the fall of the task's smoothed curve from the
    start to the end of the visit, scaled as the module says. It is not a number where
    the visit is not to a later task.
    """
    lost = -_changes(evaluations, visit_of_evaluation)
    return np.where(_is_later(lost.shape[1]), lost, np.nan)


def isolated_transfer(
    evaluations: Evaluations, visit_of_evaluation: Int[np.ndarray, " evaluations"]
) -> Matrices:
    """Return the gain on each task in each visit to an earlier task of the first cycle.

    The result is `[agent, task, visit]`: the rise of the task's smoothed curve from the
    start to the end of the visit, scaled as the module says. It is not a number where
    the visit is not to an earlier task.
    """
    gained = _changes(evaluations, visit_of_evaluation)
    return np.where(_is_later(gained.shape[1]).T, gained, np.nan)


def _is_later(tasks: int) -> Bool[np.ndarray, "tasks visits"]:
    """Return for each task whether each visit of the first cycle is to a later one."""
    return np.triu(np.ones((tasks, tasks), bool), 1)
