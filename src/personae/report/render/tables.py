"""The tables of one run, and of several methods beside each other and the paper."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from personae.metrics import Interval, mean_interval
from personae.report.data.comparable import by_method
from personae.report.data.comparison import Comparison
from personae.report.data.cora import cora_tables, published_rows, with_unseen
from personae.report.data.record import Record
from personae.report.paper.published import (
    as_published,
    published,
    published_interval,
    published_numbers,
    published_test,
)
from personae.report.render.table import Table

ABSENT = "-"
MEASURE_NAMES = {
    "total_evaluation": "Total evaluation",
    "mean_evaluation": "Mean evaluation",
    "forward_transfer": "Forward transfer",
}
OF_LIVES = (
    "Bootstrap and Welch over seeds; P(better): that the reference has the better "
    "evaluation on a task."
)
SIGNIFICANCE_NOTES = {
    "total_evaluation": OF_LIVES,
    "mean_evaluation": OF_LIVES,
    "forward_transfer": "Bootstrap and Welch over seeds; the published ones are pooled "
    "over seeds and tasks. P(better): that the reference has the larger transfer on a "
    "task.",
}


def task_table(record: Record) -> Table:
    """Return the tasks in the order they were learned, and how each went."""
    header = (
        "task",
        "steps to 75 %",
        f"last training {record.measure}",
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


def returns_table(
    tasks: Sequence[str],
    targets: Float[np.ndarray, " tasks"],
    returns: Float[np.ndarray, "agents tasks episodes"],
    measure: str = "return",
) -> Table:
    """Return what agents collect on each task, beside its target."""
    header = ("task", measure, "worst agent", "best agent", "target")
    of_agents = returns.mean(-1)
    rows = [
        (
            task,
            str(mean_interval(of_agents[:, number])),
            f"{of_agents[:, number].min():.2f}",
            f"{of_agents[:, number].max():.2f}",
            f"{targets[number]:.2f}",
        )
        for number, task in enumerate(tasks)
    ]
    agents, _, episodes = returns.shape
    played = f"{agents} agent{'s' * (agents > 1)}, episodes on each task: {episodes}"
    return Table(played, header, rows)


def total_line(record: Record) -> str:
    """Return the total evaluation against the ideal, in one line."""
    total = mean_interval(record.total_evaluation)
    return f"total evaluation {total} of {record.ideal_total:g}"


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Return all tables of a comparison; those without rows are left out."""
    tables = [evaluation_table(comparison), retention_table(comparison)]
    if comparison.first.by_success:
        tables.append(continual_world_table(comparison))
    tables += cora_tables(comparison)
    measures = [comparison.measure_of_lives]
    if comparison.experts is not None:
        tables += [transfer_table(comparison), transfer_per_task_table(comparison)]
        measures.append("forward_transfer")
    tables += [steps_table(comparison, share) for share in (0.75, 0.5)]
    tables.append(area_table(comparison))
    tables += [significance_table(comparison, measure) for measure in measures]
    return [table for table in tables if table.rows]


def remarks(comparison: Comparison) -> list[str]:
    """Say what is missing or cannot be compared, and why."""
    said = (
        _remark_on_evaluations(comparison),
        _remark_on_experts(comparison),
        _remark_on_transfer(comparison),
        _remark_on_seeds(comparison),
        _remark_on_the_paper(comparison),
    )
    return [remark for remark in said if remark is not None]


def _remark_on_evaluations(comparison: Comparison) -> str | None:
    if comparison.measure_of_lives == "total_evaluation":
        return None
    records = comparison.records.values()
    numbers = by_method((record, record.num_evaluations) for record in records)
    cora = ", and CORA's numbers depend on how many a visit has"
    return (
        f"Evaluations differ in number: {numbers}. Totals are of all of them, so that "
        "only their shares of the ideal and means can be compared"
        f"{cora * with_unseen(comparison)}."
    )


def _remark_on_experts(comparison: Comparison) -> str | None:
    if comparison.experts is None:
        return "Forward transfer is left out: there is no run of the method 'expert'."
    if len(comparison.experts.seeds) == 1:
        return "Forward transfer is measured against experts of one seed only."
    return None


def _remark_on_transfer(comparison: Comparison) -> str | None:
    if comparison.experts is None:
        return None
    transfer = comparison.transfer(comparison.reference)
    tasks = comparison.first.tasks
    lacking = [t for t, v in zip(tasks, transfer.T, strict=True) if np.isnan(v).any()]
    if not lacking:
        return None
    return (
        f"Forward transfer on {', '.join(lacking)} is left out: experts have the best "
        "possible area already, or returns exceed the task's target."
    )


def _remark_on_seeds(comparison: Comparison) -> str | None:
    single = [m for m, r in comparison.records.items() if len(r.seeds) == 1]
    if not single:
        return None
    if comparison.reference in single:
        return f"No tests: {comparison.reference}, the reference, has one seed only."
    return f"No intervals and no tests for {', '.join(single)}: one seed only."


def _remark_on_the_paper(comparison: Comparison) -> str | None:
    name = comparison.first.short_name
    if name not in published()["tables"]:
        return f"No published numbers: the paper has none for {name}."
    other = {m: r for m, r in comparison.records.items() if not as_published(r)}
    shown = [
        m for m, r in other.items() if with_unseen(comparison) and published_rows(r)
    ]
    lacking = [method for method in other if method not in shown]
    said = []
    if shown:
        said.append(
            f"Published numbers beside {', '.join(shown)} are of other settings."
        )
    if lacking:
        said.append(
            f"No published numbers beside {', '.join(lacking)}: the settings are not "
            "those that the paper's tables belong to."
        )
    return " ".join(said) or None


def evaluation_table(comparison: Comparison) -> Table:
    """Return the evaluation of whole lives, per method."""
    rows = []
    for method, record in comparison.records.items():
        total = comparison.interval("total_evaluation", method)
        middle = comparison.middle(method)
        rows.append(
            (
                method,
                str(total),
                _published(record, "total_evaluation"),
                _difference(record, "total_evaluation", total),
                f"{total.mean / record.ideal_total:.1%}",
                f"{middle.estimate:.2f}" if len(record.seeds) == 1 else str(middle),
            )
        )
    header = (
        "method",
        "total",
        "published",
        "difference",
        "of ideal",
        "interquartile mean",
    )
    record = comparison.first
    title = f"Total evaluation on {record.curriculum}"
    if comparison.measure_of_lives == "total_evaluation":
        title += f" (ideal {record.ideal_total:g})"
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


def continual_world_table(comparison: Comparison) -> Table:
    """Return the three measures of Continual World."""
    measures = ["final_performance", "performance_lost"]
    header = ["method", "performance", "forgetting"]
    if comparison.experts is not None:
        measures.append("evaluation_transfer")
        header.append("forward transfer")
    rows = [
        (method, *(str(comparison.interval(measure, method)) for measure in measures))
        for method in comparison.records
    ]
    note = "Success, averaged over five evaluations; forward transfer of evaluations."
    return Table("Continual World's measures", tuple(header), rows, note)


def transfer_table(comparison: Comparison) -> Table:
    """Return forward transfer, with the seed as the unit and as the paper pools it."""
    rows = [
        (
            method,
            str(comparison.interval("forward_transfer", method)),
            str(pooled := comparison.transfer_pooled_over_seeds_and_tasks(method)),
            _published(record, "forward_transfer"),
            _difference(record, "forward_transfer", pooled),
        )
        for method, record in comparison.records.items()
    ]
    pooled_name = "pooled over seeds and tasks"
    header = ("method", "over seeds", pooled_name, "published", "difference")
    note = "The published interval is pooled over seeds and tasks."
    return Table("Forward transfer", header, rows, note)


def transfer_per_task_table(comparison: Comparison) -> Table:
    """Return forward transfer task by task."""
    rows = []
    for method, record in comparison.records.items():
        ours = comparison.transfer(method).mean(0)
        rows.append((method, *map(_number, ours)))
        theirs = published_numbers(record).get("forward_transfer_per_task")
        if theirs is not None:
            rows.append(("  published", *map(_number, theirs)))
    header = ("method", *comparison.first.tasks)
    return Table("Forward transfer per task", header, rows, "Means over seeds.")


def steps_table(comparison: Comparison, share: float) -> Table:
    """Return the steps until a share of each task's target is reached."""
    rows = []
    for method, record in comparison.records.items():
        rows.append((method, *_thousands(record.steps_to_target(share))))
        theirs = published_numbers(record).get("steps_to_target_per_task")
        if theirs is not None and share == 0.75:
            rows.append(("  published", *_thousands(theirs)))
    header = ("method", *(curve.task for curve in comparison.first.training))
    title = f"Thousands of steps to {share:.0%} of the target"
    note = "Read off the training return averaged over seeds, as in the paper."
    return Table(title, header, rows, note)


def area_table(comparison: Comparison) -> Table:
    """Return the area under each task's training curve, experts included."""
    rows = [
        (method, *map(_number, record.areas.mean(0)))
        for method, record in comparison.everything.items()
    ]
    header = ("method", *comparison.first.tasks)
    return Table("Area under the training curve", header, rows, "Means over seeds.")


def significance_table(comparison: Comparison, measure: str) -> Table:
    """Return the tests of all methods against the reference in one measure."""
    rows = []
    reference = comparison.records[comparison.reference]
    for test in comparison.tests(measure):
        record = comparison.records[test.method]
        theirs = published_test(record, reference, measure)
        rows.append(
            (
                test.method,
                str(test.difference),
                _number(test.p_value, ".3g"),
                _number(test.corrected, ".3g"),
                _number(theirs["welch_p"], ".3g") if theirs else ABSENT,
                _range(theirs["bootstrap_ci"]) if theirs else ABSENT,
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


def _published(record: Record, measure: str) -> str:
    interval = published_interval(published_numbers(record).get(measure))
    return ABSENT if interval is None else str(interval)


def _difference(record: Record, measure: str, ours: Interval) -> str:
    theirs = published_interval(published_numbers(record).get(measure))
    return ABSENT if theirs is None else f"{ours.mean - theirs.mean:+.2f}"


def _number(value: float, form: str = ".2f") -> str:
    return ABSENT if np.isnan(value) else format(value, form)


def _thousands(steps: Sequence[int | None]) -> list[str]:
    return ["fail" if count is None else f"{count / 1000:.0f}" for count in steps]
