"""Numbers of runs with evaluations on unseen levels, in the manner of CORA."""

import numpy as np
from jaxtyping import Float

from personae.metrics import isolated_forgetting, isolated_transfer
from personae.metrics.cora import Matrices
from personae.report.data.comparison import Comparison
from personae.report.data.record import Record

LAST_SHARE = 4
"""One in so many of a visit's evaluations, the last ones, are averaged: the ten
episodes of a single evaluation are noisy."""

Evaluations = Float[np.ndarray, "agents evaluations tasks"]


def has_unseen(comparison: Comparison) -> bool:
    """Tell whether all runs have evaluations on unseen levels."""
    return all(record.unseen is not None for record in comparison.records.values())


def trained_and_unseen(record: Record) -> tuple[Evaluations, Evaluations]:
    """Return the evaluations on the trained levels and on the unseen ones."""
    assert record.unseen is not None
    return record.evaluations, record.unseen


def forgetting_and_transfer(record: Record) -> tuple[Matrices, Matrices]:
    """Return the losses of tasks in later visits and the gains in earlier ones."""
    _, unseen = trained_and_unseen(record)
    visits = record.evaluation_visit
    return isolated_forgetting(unseen, visits), isolated_transfer(unseen, visits)


def mean_of_pairs(matrices: Matrices) -> Float[np.ndarray, " agents"]:
    """Return each agent's mean over all pairs of tasks; 0 if there are none."""
    defined = np.isfinite(matrices)
    # A single task has no pairs; its run still gets a row.
    count = np.maximum(defined.sum((1, 2)), 1)
    return np.asarray(np.where(defined, matrices, 0).sum((1, 2)) / count)


def mean_of_rows(matrix: Float[np.ndarray, "tasks visits"]) -> np.ndarray:
    """Return the mean of each column over its defined rows; nan if it has none."""
    defined = np.isfinite(matrix)
    count = defined.sum(0)
    return np.where(defined, matrix, 0).sum(0) / np.where(count > 0, count, np.nan)


def returns_after_training(record: Record, evaluations: Evaluations) -> list[float]:
    """Return each task's mean at the end of its last visit; nan if it has none yet."""
    means = []
    for task in range(len(record.tasks)):
        visits = record.evaluation_visit[record.evaluation_task == task]
        last = _last_evaluations(record, int(visits.max(initial=-1)))
        returns = evaluations[:, last, task]
        means.append(float(returns.mean()) if returns.size else np.nan)
    return means


def returns_at_the_end(record: Record) -> Float[np.ndarray, " tasks"]:
    """Return each task's mean at the end of the last visit begun."""
    last = _last_evaluations(record, len(record.training) - 1)
    return np.asarray(record.evaluations[:, last].mean((0, 1)))


def _last_evaluations(record: Record, visit: int) -> np.ndarray:
    """Return the indices of the last quarter of a visit's evaluations."""
    during = np.flatnonzero(record.evaluation_visit == visit)
    return during[-max(1, round(len(during) / LAST_SHARE)) :]
