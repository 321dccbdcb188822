"""The measures of a method: one number per seed, for intervals and tests."""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float

from personae.errors import UsageError
from personae.metrics import (
    average_performance,
    backward_transfer,
    evaluation_areas,
    final_performance,
    forgetting,
    forward_transfer,
    mean_of_known,
    performance_lost,
    zero_shot_transfer,
)
from personae.report.data.record import Record, best_areas

PerSeed = Float[np.ndarray, " seeds"]
Measure = Callable[[Record, Record | None], PerSeed]
"""A number for each seed of a record; the second record, if any, is the experts'."""


def transfer(
    record: Record, experts: Record | None
) -> Float[np.ndarray, "seeds tasks"]:
    """Return the forward transfer of each seed and task."""
    return record.forward_transfer(_present(experts))


def _evaluation_transfer(
    record: Record, experts: Record | None
) -> Float[np.ndarray, "seeds tasks"]:
    """Return forward transfer by Continual World's definition.

    Note: its areas are under the evaluation curves; the masks' paper takes those under
    the training curves.
    """
    areas = _evaluation_areas(record)
    expert_areas = _evaluation_areas(_present(experts))
    return forward_transfer(areas, expert_areas, best_areas(record))


def _evaluation_areas(record: Record) -> Float[np.ndarray, "seeds tasks"]:
    return evaluation_areas(
        record.evaluations, record.evaluation_task, record.evaluation_visit
    )


def _present(experts: Record | None) -> Record:
    if experts is None:
        raise UsageError("forward transfer needs a run of the method 'expert'")
    return experts


def _final_performance(record: Record, _: Record | None) -> PerSeed:
    final = final_performance(record.evaluations, record.evaluation_visit)
    return np.asarray(final.mean(-1))


def _performance_lost(record: Record, _: Record | None) -> PerSeed:
    lost = performance_lost(
        record.evaluations, record.evaluation_task, record.evaluation_visit
    )
    return mean_of_known(lost)


def _mean_evaluation(record: Record, _: Record | None) -> PerSeed:
    return record.total_evaluation / record.schedule.num_evaluations


def _of_matrix(
    measure: Callable[[np.ndarray, np.ndarray], np.ndarray], record: Record
) -> np.ndarray:
    """Apply a measure of returns at the end of visits."""
    return measure(record.matrix, record.schedule.task_of_visit)


# A task for which a measure is undefined, such as forgetting of the last one, is left
# out of the mean over tasks.
MEASURES: Mapping[str, Measure] = {
    "total_evaluation": lambda record, _: record.total_evaluation,
    "mean_evaluation": _mean_evaluation,
    "forward_transfer": lambda *records: mean_of_known(transfer(*records)),
    "average_performance": lambda record, _: average_performance(record.matrix),
    "forgetting": lambda record, _: mean_of_known(_of_matrix(forgetting, record)),
    "backward_transfer": lambda record, _: _of_matrix(backward_transfer, record),
    "zero_shot_transfer": lambda record, _: mean_of_known(
        _of_matrix(zero_shot_transfer, record)
    ),
    "final_performance": _final_performance,
    "performance_lost": _performance_lost,
    "evaluation_transfer": lambda *records: mean_of_known(
        _evaluation_transfer(*records)
    ),
}
"""All measures by name; a comparison, its tables and its tests know them by these."""
