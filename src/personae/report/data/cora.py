"""Tables of runs that were tested on what they never trained on, in CORA's manner."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from personae.metrics import (
    Interval,
    isolated_forgetting,
    isolated_transfer,
    mean_interval,
)
from personae.metrics.cora import Matrices
from personae.report.data.comparison import Comparison
from personae.report.data.record import Record
from personae.report.paper.published import anchors, published
from personae.report.render.table import Table

NOTE = "Times ten; mean over seeds."
AVERAGED = 4
"""The last evaluations that are averaged, one in so many of a visit: ten episodes say
little."""


def cora_tables(comparison: Comparison) -> list[Table]:
    """Return what is unseen beside what was trained on, and CORA's two matrices."""
    if not with_unseen(comparison):
        return []
    tables = [unseen_table(comparison), returns_by_task(comparison)]
    for method, record in comparison.records.items():
        lost, gained = of_record(record)
        losses = f"Forgetting of {method} on unseen levels"
        gains = f"Zero-shot transfer of {method} to unseen levels"
        tables.append(matrix_table(losses, record, lost))
        tables.append(matrix_table(gains, record, gained))
    return tables


def with_unseen(comparison: Comparison) -> bool:
    """Tell whether all runs were tested on what they never trained on."""
    return all(record.unseen is not None for record in comparison.records.values())


def of_record(record: Record) -> tuple[Matrices, Matrices]:
    """Return what tasks lose in later visits, and gain in earlier ones."""
    assert record.unseen is not None

    def measured(measure: Callable[..., Matrices]) -> Matrices:
        return measure(record.unseen, record.evaluation_visit)

    return measured(isolated_forgetting), measured(isolated_transfer)


def unseen_table(comparison: Comparison) -> Table:
    """Return totals, and what all tasks have together in an evaluation, on both."""
    rows = []
    for method, record in comparison.records.items():
        assert record.unseen is not None
        totals = [evaluated.sum((1, 2)) for evaluated in _both(record)]
        means = [evaluated.sum(2).mean(1) for evaluated in _both(record)]
        pairs = [_mean_of_pairs(each) for each in of_record(record)]
        numbers = (*totals, *means, *pairs)
        rows.append((method, *(str(mean_interval(each)) for each in numbers)))
        rows += published_rows(record)
    header = (
        "method",
        "total",
        "total, unseen",
        "sum of returns",
        "sum of returns, unseen",
        "forgetting",
        "zero-shot transfer",
    )
    note = (
        "Sum of returns: of all tasks, mean over evaluations. Forgetting and transfer: "
        "CORA's, isolated, of the first cycle on what is unseen, times ten. Published: "
        "five cycles with about 600 evaluations."
    )
    return Table("What was trained on, and what is unseen", header, rows, note)


def published_rows(record: Record) -> list[tuple[str, ...]]:
    """Return the paper's numbers for a method, if it has the curriculum's: one row."""
    known, name = published(), record.short_name
    totals = known["tables"].get(name, {}).get(record.method, {})
    if "total_evaluation_test" not in totals:
        return []
    pairs = [totals[f"total_evaluation_{levels}"] for levels in ("train", "test")]
    number = known["protocol"][name]["evaluations"]
    sums = [Interval(each["mean"], each["ci95"]) for each in pairs]
    means = [Interval(each["mean"] / number, each["ci95"] / number) for each in pairs]
    transfer = known["procgen_zero_shot_transfer"].get(record.method)
    mean = "" if transfer is None else f"{transfer[-1][-1]:.1f}"
    return [("  published", *map(str, (*sums, *means)), "", mean)]


def returns_by_task(comparison: Comparison) -> Table:
    """Return what each task brings, beside what it does to who has learned nothing."""
    rows = []
    for method, record in comparison.records.items():
        trained, unseen = (_when_learned(record, each) for each in _both(record))
        last = _last_evaluations(record, len(record.training) - 1)
        at_the_end = record.evaluations[:, last].mean((0, 1))
        rows.append((method, *map(_short, trained)))
        rows.append((f"{method}, unseen", *map(_short, unseen)))
        rows.append((f"{method}, end of life", *map(_short, at_the_end)))
    first = comparison.first
    rows += _untrained(first)
    note = (
        "Mean over seeds and the last quarter of the evaluations of a task's last "
        "visit, or as many at the end of life. Random and constant actions: 300 "
        "episodes."
    )
    return Table("Returns of each task", ("method", *first.tasks), rows, note)


def _untrained(record: Record) -> list[tuple[str, ...]]:
    """Return what tasks bring to who has learned nothing, if it has been measured."""
    tasks = record.run["config"]["curriculum"]["tasks"]
    known = [anchors().get(task["env"]) for task in tasks]

    def fits(task: Mapping[str, Any], anchor: Mapping[str, Any] | None) -> bool:
        settings = {name: task.get(name) for name in ("options", "unseen")}
        raw = not task.get("floor") and not record.by_success
        return anchor is not None and raw and settings.items() <= anchor.items()

    if not all(map(fits, tasks, known)):
        return []
    returns = [anchor["returns"] for anchor in known if anchor is not None]
    return [
        (name, *(_short(each[name]["mean"]) for each in returns)) for name in returns[0]
    ]


def _when_learned(record: Record, evaluated: np.ndarray) -> list[float]:
    """Return each task's mean at the end of its last visit; nan if it has none yet."""
    means = []
    for task in range(len(record.tasks)):
        visits = record.evaluation_visit[record.evaluation_task == task]
        last = _last_evaluations(record, int(visits.max(initial=-1)))
        found = evaluated[:, last, task]
        means.append(float(found.mean()) if found.size else np.nan)
    return means


def _last_evaluations(record: Record, visit: int) -> np.ndarray:
    """Return the numbers of the last quarter of a visit's evaluations."""
    during = np.flatnonzero(record.evaluation_visit == visit)
    return during[-max(1, round(len(during) / AVERAGED)) :]


def _short(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"


def _both(record: Record) -> tuple[np.ndarray, np.ndarray]:
    assert record.unseen is not None
    return record.evaluations, record.unseen


def _mean_of_pairs(matrices: Matrices) -> np.ndarray:
    """Return each agent's mean over all pairs of tasks; 0 if there are none."""
    known = np.isfinite(matrices)
    count = np.maximum(known.sum((1, 2)), 1)
    return np.asarray(np.where(known, matrices, 0).sum((1, 2)) / count)


def matrix_table(title: str, record: Record, matrices: Matrices) -> Table:
    """Return the effect of training each task (columns) on each other one (rows)."""
    mean = matrices.mean(0)

    def cells(values: np.ndarray) -> list[str]:
        return ["" if np.isnan(value) else f"{value:.1f}" for value in values]

    rows = [
        (task, *cells(values)) for task, values in zip(record.tasks, mean, strict=True)
    ]
    known = np.isfinite(mean)
    count = known.sum(0)
    average = np.where(known, mean, 0).sum(0) / np.where(count > 0, count, np.nan)
    rows.append(("mean", *cells(average)))
    return Table(title, ("task", *record.tasks), rows, NOTE)
