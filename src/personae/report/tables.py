"""The tables of one run, and of several methods beside each other and the paper."""

from collections.abc import Mapping, Sequence
from typing import Any

from personae.metrics import Interval, Range, mean_interval
from personae.report.comparison import Comparison
from personae.report.published import (
    REFERENCE,
    published_interval,
    published_significance,
    published_tables,
)
from personae.report.record import Record
from personae.report.table import Table

ABSENT = "-"
MEASURE_NAMES = {
    "total_evaluation": "Total evaluation",
    "forward_transfer": "Forward transfer",
}
SIGNIFICANCE_NOTES = {
    "total_evaluation": "Bootstrap and Welch over seeds; P(better): that the reference "
    "has the better evaluation on a task.",
    "forward_transfer": "Bootstrap and Welch over seeds; the published ones are pooled "
    "over seeds and tasks. P(better): that the reference has the larger transfer on a "
    "task.",
}


def task_table(record: Record) -> Table:
    """Return the tasks in the order they were learned, and how each went."""
    header = (
        "task",
        "steps to 75 %",
        "last training return",
        "evaluation when learned",
        "evaluation at the end",
    )
    rows = []
    steps = record.steps_to_target()
    for visit, (curve, reached) in enumerate(zip(record.training, steps, strict=True)):
        task = record.tasks.index(curve.task)
        during = record.evaluation_visit == visit
        per_task = record.evaluations[:, :, task].mean(0)
        rows.append(
            (
                f"{visit + 1} {curve.task}",
                "not reached" if reached is None else f"{reached:,}",
                f"{curve.returns[:, -1].mean():.2f}",
                f"{per_task[during][-1]:.2f}" if during.any() else "not yet",
                f"{per_task[-1]:.2f}",
            )
        )
    return Table(record.title, header, rows)


def total_line(record: Record) -> str:
    """Return the total evaluation against the ideal, in one line."""
    total = mean_interval(record.total_evaluation)
    return f"total evaluation {total} of {record.ideal_total:g}"


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Return all tables of a comparison."""
    tables = [evaluation_table(comparison), retention_table(comparison)]
    if comparison.experts is not None:
        tables += [transfer_table(comparison), transfer_per_task_table(comparison)]
    tables += [steps_table(comparison, share) for share in (0.75, 0.5)]
    tables.append(area_table(comparison))
    measures = ["total_evaluation"]
    measures += ["forward_transfer"] * (comparison.experts is not None)
    return tables + [significance_table(comparison, m) for m in measures]


def remarks(comparison: Comparison) -> list[str]:
    """Say what is missing, and why."""
    found = []
    if comparison.experts is None:
        found.append(
            "Forward transfer is left out: there is no run of the method 'expert'."
        )
    single = [m for m, r in comparison.records.items() if len(r.seeds) == 1]
    if single:
        found.append(
            f"No intervals and no tests for {', '.join(single)}: one seed only."
        )
    if not published_tables(comparison.first):
        found.append(
            "No published numbers beside ours: the paper has none for "
            f"{comparison.first.short_name} with "
            f"{comparison.first.steps_per_task:,} steps per task."
        )
    return found


def evaluation_table(comparison: Comparison) -> Table:
    """Return the evaluation of whole lives, per method."""
    paper = published_tables(comparison.first)
    rows = []
    for method, record in comparison.records.items():
        total = comparison.interval("total_evaluation", method)
        rows.append(
            (
                method,
                str(total),
                _text(published_interval(_of(paper, method, "total_evaluation"))),
                f"{total.mean / record.ideal_total:.1%}",
                str(comparison.middle(method)),
            )
        )
    header = ("method", "total", "published", "of ideal", "interquartile mean")
    record = comparison.first
    title = f"Total evaluation on {record.curriculum} (ideal {record.ideal_total:g})"
    return Table(title, header, rows, "Mean ± 95 % Student-t interval over seeds.")


def retention_table(comparison: Comparison) -> Table:
    """Return what is left at the end, and what tasks do to each other."""
    measures = (
        "average_performance",
        "forgetting",
        "backward_transfer",
        "zero_shot_transfer",
    )
    rows = [
        (method, *(str(comparison.interval(measure, method)) for measure in measures))
        for method in comparison.records
    ]
    header = ("method", "at the end", "forgetting", "backward", "zero-shot")
    return Table("Means over tasks", header, rows, "docs/metrics.md defines them.")


def transfer_table(comparison: Comparison) -> Table:
    """Return forward transfer, with the seed as the unit and as the paper pools it."""
    paper = published_tables(comparison.first)
    rows = [
        (
            method,
            str(comparison.interval("forward_transfer", method)),
            str(comparison.transfer_pooled_over_seeds_and_tasks(method)),
            _text(published_interval(_of(paper, method, "forward_transfer"))),
        )
        for method in comparison.records
    ]
    header = ("method", "over seeds", "pooled over seeds and tasks", "published")
    note = "The published interval is pooled over seeds and tasks."
    return Table("Forward transfer", header, rows, note)


def transfer_per_task_table(comparison: Comparison) -> Table:
    """Return forward transfer task by task."""
    paper = published_tables(comparison.first)
    rows = []
    for method in comparison.records:
        ours = comparison.transfer(method).mean(0)
        rows.append((method, *(f"{value:.2f}" for value in ours)))
        theirs = _of(paper, method, "forward_transfer_per_task")
        if theirs is not None:
            rows.append(("  published", *(f"{value:.2f}" for value in theirs)))
    header = ("method", *comparison.first.tasks)
    return Table("Forward transfer per task", header, rows, "Means over seeds.")


def steps_table(comparison: Comparison, share: float) -> Table:
    """Return the steps until a share of each task's target is reached."""
    paper = published_tables(comparison.first)
    rows = []
    for method, record in comparison.records.items():
        rows.append((method, *_thousands(record.steps_to_target(share))))
        theirs = _of(paper, method, "steps_to_target_per_task")
        if theirs is not None and share == 0.75:
            rows.append(("  published", *_thousands(theirs)))
    header = ("method", *(curve.task for curve in comparison.first.training))
    title = f"Thousands of steps to {share:.0%} of the target"
    note = "Read off the training return averaged over seeds, as in the paper."
    return Table(title, header, rows, note)


def area_table(comparison: Comparison) -> Table:
    """Return the area under each task's training curve, experts included."""
    records = dict(comparison.records)
    if comparison.experts is not None:
        records["expert"] = comparison.experts
    rows = [
        (method, *(f"{value:.2f}" for value in record.areas.mean(0)))
        for method, record in records.items()
    ]
    header = ("method", *comparison.first.tasks)
    return Table("Area under the training curve", header, rows, "Means over seeds.")


def significance_table(comparison: Comparison, measure: str) -> Table:
    """Return the tests of all methods against the reference in one measure."""
    tested: Mapping[str, Any] = {}
    if comparison.reference == REFERENCE:
        tested = published_significance(comparison.first)
    rows = []
    for test in comparison.tests(measure):
        theirs = tested.get(test.method, {}).get(measure)
        rows.append(
            (
                test.method,
                str(test.difference),
                f"{test.p_value:.3g}",
                f"{test.corrected:.3g}",
                ABSENT if theirs is None else f"{theirs['welch_p']:.3g}",
                ABSENT if theirs is None else _range(theirs["bootstrap_ci"]),
                str(comparison.improvement(measure, test.method)),
            )
        )
    header = (
        "method",
        "difference",
        "p",
        "Holm",
        "published p",
        "published",
        "P(better)",
    )
    title = f"{MEASURE_NAMES[measure]}: {comparison.reference} minus each method"
    return Table(title, header, rows, SIGNIFICANCE_NOTES[measure])


def _range(ends: Sequence[float]) -> str:
    return f"[{ends[0]:.2f}, {ends[1]:.2f}]"


def _of(paper: Mapping[str, Any], method: str, measure: str) -> Any:
    return paper.get(method, {}).get(measure)


def _text(value: Interval | Range | None) -> str:
    return ABSENT if value is None else str(value)


def _thousands(steps: Sequence[int | None]) -> list[str]:
    return ["fail" if count is None else f"{count / 1000:.0f}" for count in steps]
