"""Measures of a whole life of learning, from its evaluations.

Notation, as in docs/metrics.md: R[v, j] is the return on task j evaluated at the end of
visit v; task j is first visited at v(j) and there are V visits. Arrays begin with the
agent axis.
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
    """Return each agent's total evaluation, the paper's main measure.

    It is the plain sum of returns over all evaluations and all tasks of the curriculum,
    trained or not.
    """
    # A sum, not a mean: it grows with the number of evaluations, as published.
    return np.asarray(np.sum(returns, axis=(-2, -1)))


def ideal_total(
    task_of_evaluation: Int[np.ndarray, " evaluations"],
    targets: Float[np.ndarray, " tasks"],
) -> float:
    """Return the total evaluation of an ideal agent, which masters each task at once.

    At every evaluation it has the target return on each task visited up to then, and 0
    on the others. An agent with zero-shot success on later tasks can exceed it.
    """
    is_visited = np.zeros(len(targets), bool)
    total = 0.0
    for task in task_of_evaluation:
        is_visited[task] = True
        total += float(targets[is_visited].sum())
    return total


def evaluation_share(
    evaluations: Evaluations,
    task_of_evaluation: Int[np.ndarray, " evaluations"],
    targets: Float[np.ndarray, " tasks"],
) -> PerTask:
    """Return each agent's mean evaluation on each task as a share of its target.

    The mean is over all evaluations since the task's first visit began, `[agent,
    task]`. An agent that masters each task at once and never forgets has 1 everywhere.
    A task that was not trained yet is not a number.
    """
    share = np.full((len(evaluations), len(targets)), np.nan)
    for task, first in first_visits(task_of_evaluation):
        # Evaluations before the first visit are zero-shot transfer, another measure.
        share[:, task] = evaluations[:, first:, task].mean(1) / targets[task]
    return share


def evaluation_matrix(
    evaluations: Evaluations, visit_of_evaluation: Int[np.ndarray, " evaluations"]
) -> Matrix:
    """Return R, the last evaluation of each visit, `[agent, visit, task]`."""
    # No visit is -1, so the last evaluation always ends one.
    ends = np.flatnonzero(np.diff(visit_of_evaluation, append=-1))
    return evaluations[:, ends]


def average_performance(matrix: Matrix) -> PerAgent:
    """Return each agent's return at the end of its life, averaged over all tasks."""
    return np.asarray(matrix[:, -1].mean(-1))


def forgetting(matrix: Matrix, task_of_visit: TaskOfVisit) -> PerTask:
    """Return each agent's forgetting of each task, max_v R[v, j] - R[V-1, j].

    The maximum is over v(j) <= v < V-1 (Chaudhry et al., 2018), and the result is
    `[agent, task]`. A task that was first visited at the last visit, or never, is not a
    number, as it has had no time to be forgotten.
    """
    lost = np.full((matrix.shape[0], matrix.shape[2]), np.nan)
    last = len(task_of_visit) - 1
    for task, first in first_visits(task_of_visit):
        if first < last:
            # A high return before the first visit was not learned, so not forgotten.
            best = matrix[:, first:last, task].max(1)
            lost[:, task] = best - matrix[:, last, task]
    return lost


def backward_transfer(matrix: Matrix, task_of_visit: TaskOfVisit) -> PerAgent:
    """Return each agent's backward transfer, the mean of R[V-1, j] - R[v(j), j].

    The mean is over the tasks first visited before the last visit (Lopez-Paz and
    Ranzato, 2017). A negative value means forgetting. With a single visit it is not a
    number.
    """
    changes = [
        matrix[:, -1, task] - matrix[:, first, task]
        for task, first in first_visits(task_of_visit)
        if first < len(task_of_visit) - 1
    ]
    return np.mean(changes, 0) if changes else np.full(matrix.shape[0], np.nan)


def zero_shot_transfer(matrix: Matrix, task_of_visit: TaskOfVisit) -> PerTask:
    """Return each agent's return on each task before its first visit, R[v(j) - 1, j].

    The result is `[agent, task]`. The first task, before which there is no evaluation,
    is not a number.
    """
    before = np.full((matrix.shape[0], matrix.shape[2]), np.nan)
    for task, first in first_visits(task_of_visit):
        if first > 0:
            before[:, task] = matrix[:, first - 1, task]
    return before


def mean_of_known(
    values: Float[np.ndarray, "*agents tasks"],
) -> Float[np.ndarray, "*agents"]:
    """Return each agent's mean over the tasks for which a measure is a number.

    If there are no such tasks, the mean is not a number either.
    """
    # np.nanmean would warn about agents without any number.
    is_number = np.isfinite(values)
    total = np.where(is_number, values, 0).sum(-1)
    count = is_number.sum(-1)
    return np.asarray(total / np.where(count > 0, count, np.nan))


def first_visits(task_of_visit: TaskOfVisit) -> list[tuple[int, int]]:
    """Return pairs of each task that is visited and the index of its first visit.

    Given the task of each evaluation instead, the indices are those of evaluations.
    """
    tasks, first = np.unique(task_of_visit, return_index=True)
    return [(int(t), int(v)) for t, v in zip(tasks, first, strict=True)]
