"""Measures of a whole life of learning, from its evaluations.

Notation, as in docs/metrics.md: R[v, j] is the return on task j evaluated at the end of
visit v; task j is first visited at v(j) and there are V visits.
"""

import numpy as np
from jaxtyping import Float, Int

Evaluations = Float[np.ndarray, "agents evaluations tasks"]
Matrix = Float[np.ndarray, "agents visits tasks"]
PerTask = Float[np.ndarray, "agents tasks"]
PerAgent = Float[np.ndarray, " agents"]
TaskOfVisit = Int[np.ndarray, " visits"]


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


def evaluation_share(
    evaluations: Evaluations,
    task_of_evaluation: Int[np.ndarray, " evaluations"],
    targets: Float[np.ndarray, " tasks"],
) -> PerTask:
    """Return each task's mean evaluation since it was first trained, of its target.

    An agent that masters each task at once and keeps it has 1 everywhere. A task that
    was not trained yet is not a number.
    """
    share = np.full((len(evaluations), len(targets)), np.nan)
    for task, first in first_visits(task_of_evaluation):
        share[:, task] = evaluations[:, first:, task].mean(1) / targets[task]
    return share


def evaluation_matrix(
    evaluations: Evaluations, visit_of_evaluation: Int[np.ndarray, " evaluations"]
) -> Matrix:
    """Return R: what each visit ended with, on every task."""
    ends = np.flatnonzero(np.diff(visit_of_evaluation, append=-1))
    return evaluations[:, ends]


def average_performance(matrix: Matrix) -> PerAgent:
    """Return the mean over tasks of the return at the end of life."""
    return np.asarray(matrix[:, -1].mean(-1))


def forgetting(matrix: Matrix, task_of_visit: TaskOfVisit) -> PerTask:
    """Return what was lost of each task's best, max_v R[v, j] - R[V-1, j].

    The maximum is over v(j) <= v < V-1 (Chaudhry et al., 2018). The task of the
    last visit has had no time to be forgotten unless it was visited before: it is not
    a number then.
    """
    lost = np.full((matrix.shape[0], matrix.shape[2]), np.nan)
    last = len(task_of_visit) - 1
    for task, first in first_visits(task_of_visit):
        if first < last:
            best = matrix[:, first:last, task].max(1)
            lost[:, task] = best - matrix[:, last, task]
    return lost


def backward_transfer(matrix: Matrix, task_of_visit: TaskOfVisit) -> PerAgent:
    """Return how later tasks changed earlier ones, the mean of R[V-1, j] - R[v(j), j].

    (Lopez-Paz and Ranzato, 2017.) The mean is over the tasks learned before the last
    visit; negative is forgetting. With a single visit it is not a number.
    """
    changes = [
        matrix[:, -1, task] - matrix[:, first, task]
        for task, first in first_visits(task_of_visit)
        if first < len(task_of_visit) - 1
    ]
    return np.mean(changes, 0) if changes else np.full(matrix.shape[0], np.nan)


def zero_shot_transfer(matrix: Matrix, task_of_visit: TaskOfVisit) -> PerTask:
    """Return R[v(j) - 1, j]: the return on a task right before it is first trained.

    The first task, before which there is no evaluation, is not a number.
    """
    before = np.full((matrix.shape[0], matrix.shape[2]), np.nan)
    for task, first in first_visits(task_of_visit):
        if first > 0:
            before[:, task] = matrix[:, first - 1, task]
    return before


def mean_of_known(
    values: Float[np.ndarray, "*agents tasks"],
) -> Float[np.ndarray, "*agents"]:
    """Return the mean over the tasks for which a measure is a number, if any."""
    known = np.isfinite(values)
    total = np.where(known, values, 0).sum(-1)
    count = known.sum(-1)
    return np.asarray(total / np.where(count > 0, count, np.nan))


def first_visits(task_of_visit: TaskOfVisit) -> list[tuple[int, int]]:
    """Return each task visited with the visit, or evaluation, that was its first."""
    tasks, first = np.unique(task_of_visit, return_index=True)
    return [(int(t), int(v)) for t, v in zip(tasks, first, strict=True)]
