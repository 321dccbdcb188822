"""Tables of runs with evaluations on unseen levels, in the manner of CORA."""

from collections.abc import Iterable

import numpy as np

from personae.metrics import Interval, mean_interval
from personae.metrics.cora import Matrices
from personae.report.data.comparison import Comparison
from personae.report.data.record import Record
from personae.report.data.unseen import (
    forgetting_and_transfer,
    has_unseen,
    mean_of_pairs,
    mean_of_rows,
    returns_after_training,
    returns_at_the_end,
    trained_and_unseen,
)
from personae.report.paper.published import anchors, published
from personae.report.render.table import Table
from personae.serialise import PlainData

NOTE = "Times ten; mean over seeds."


def cora_tables(comparison: Comparison) -> list[Table]:
    """Return trained and unseen levels side by side, and CORA's two matrices."""
    if not has_unseen(comparison):
        return []
    tables = [unseen_table(comparison), returns_by_task(comparison)]
    for method, record in comparison.records.items():
        losses, gains = forgetting_and_transfer(record)
        losses_title = f"Forgetting of {method} on unseen levels"
        gains_title = f"Zero-shot transfer of {method} to unseen levels"
        tables.append(matrix_table(losses_title, record, losses))
        tables.append(matrix_table(gains_title, record, gains))
    return tables


def unseen_table(comparison: Comparison) -> Table:
    """Return totals and sums over all tasks, on trained and on unseen levels."""
    rows = []
    for method, record in comparison.records.items():
        evaluations = trained_and_unseen(record)
        totals = [returns.sum((1, 2)) for returns in evaluations]
        means = [returns.sum(2).mean(1) for returns in evaluations]
        pairs = [mean_of_pairs(matrix) for matrix in forgetting_and_transfer(record)]
        numbers = (*totals, *means, *pairs)
        rows.append((method, *(str(mean_interval(samples)) for samples in numbers)))
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
        "CORA's isolated measures of the first cycle on unseen levels, times ten. "
        "Published: five cycles with about 600 evaluations."
    )
    return Table("Trained and unseen levels", header, rows, note)


def published_rows(record: Record) -> list[tuple[str, ...]]:
    """Return the paper's numbers for a method, if it has the curriculum's: one row."""
    paper, name = published(), record.short_name
    totals = paper["tables"].get(name, {}).get(record.method, {})
    if "total_evaluation_test" not in totals:
        return []
    pairs = [totals[f"total_evaluation_{levels}"] for levels in ("train", "test")]
    # The paper's totals have more terms than ours; only by its own count of evaluations
    # do they become sums of returns that can be compared.
    count = paper["protocol"][name]["evaluations"]
    sums = [Interval(pair["mean"], pair["ci95"]) for pair in pairs]
    means = [Interval(pair["mean"] / count, pair["ci95"] / count) for pair in pairs]
    transfer = paper["procgen_zero_shot_transfer"].get(record.method)
    mean = "" if transfer is None else f"{transfer[-1][-1]:.1f}"
    return [("  published", *map(str, (*sums, *means)), "", mean)]


def returns_by_task(comparison: Comparison) -> Table:
    """Return the returns of each task beside those of agents without training."""
    rows = []
    for method, record in comparison.records.items():
        trained, unseen = (
            returns_after_training(record, returns)
            for returns in trained_and_unseen(record)
        )
        rows.append((method, *map(_short, trained)))
        rows.append((f"{method}, unseen", *map(_short, unseen)))
        at_the_end = returns_at_the_end(record)
        rows.append((f"{method}, end of life", *map(_short, at_the_end)))
    first = comparison.first_record
    rows += _untrained_rows(first)
    note = (
        "Mean over seeds and the last quarter of the evaluations of a task's last "
        "visit, or as many at the end of life. Random and constant actions: 300 "
        "episodes."
    )
    return Table("Returns of each task", ("method", *first.tasks), rows, note)


def _untrained_rows(record: Record) -> list[tuple[str, ...]]:
    """Return the returns of random and constant actions, if they were measured."""
    tasks = record.run["config"]["curriculum"]["tasks"]
    measured = [anchors().get(task["env"]) for task in tasks]
    pairs = zip(tasks, measured, strict=True)
    if not all(_has_same_settings(record, task, anchor) for task, anchor in pairs):
        return []
    returns = [anchor["returns"] for anchor in measured if anchor is not None]
    return [
        (name, *(_short(of_task[name]["mean"]) for of_task in returns))
        for name in returns[0]
    ]


def _has_same_settings(
    record: Record, task: PlainData, anchor: PlainData | None
) -> bool:
    """Tell whether an anchor was measured with the settings of a task."""
    # Anchors are raw returns: neither floors nor success can stand beside them.
    raw = not task.get("floor") and not record.by_success
    settings = {name: task.get(name) for name in ("options", "unseen")}
    return anchor is not None and raw and settings.items() <= anchor.items()


def matrix_table(title: str, record: Record, matrices: Matrices) -> Table:
    """Return the effect of training each task (columns) on each other one (rows)."""
    matrix = matrices.mean(0)
    rows = [
        (task, *_cells(values))
        for task, values in zip(record.tasks, matrix, strict=True)
    ]
    rows.append(("mean", *_cells(mean_of_rows(matrix))))
    return Table(title, ("task", *record.tasks), rows, NOTE)


def _cells(values: Iterable[float]) -> list[str]:
    return [_short(value, ".1f") for value in values]


def _short(value: float, form: str = ".2f") -> str:
    return "" if np.isnan(value) else format(value, form)
