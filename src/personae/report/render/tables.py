"""The tables of one run, and of several methods side by side with the paper."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from personae.metrics import Interval, mean_interval
from personae.report.data.collection import Collection
from personae.report.data.comparison import Comparison
from personae.report.data.record import Record
from personae.report.paper.claim import Runs
from personae.report.paper.claims import verdicts
from personae.report.paper.published import (
    published_interval,
    published_numbers,
    published_test,
)
from personae.report.render.cora_tables import cora_tables
from personae.report.render.table import Table

ABSENT = "-"
PUBLISHED_SHARE = 0.75
"""Share of the target to which the paper counts steps."""
MEASURE_NAMES = {
    "total_evaluation": "Total evaluation",
    "mean_evaluation": "Mean evaluation",
    "forward_transfer": "Forward transfer",
}
NOTE_ON_EVALUATIONS = (
    "Bootstrap and Welch over seeds; P(better): probability that the reference has the "
    "better evaluation on a task."
)
SIGNIFICANCE_NOTES = {
    "total_evaluation": NOTE_ON_EVALUATIONS,
    "mean_evaluation": NOTE_ON_EVALUATIONS,
    "forward_transfer": "Bootstrap and Welch over seeds; the published ones are pooled "
    "over seeds and tasks. P(better): probability that the reference has the larger "
    "transfer on a task.",
}


def task_table(record: Record) -> Table:
    """Return the tasks of a run in the order of their training, with returns."""
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
        # A visit that goes on may have no evaluation yet.
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
    seeds = f"{len(record.seeds)} seed{'s' * (len(record.seeds) > 1)}"
    title = f"{record.method} on {record.curriculum}, {seeds}"
    return Table(title, header, rows)


def returns_table(
    tasks: Sequence[str],
    targets: Float[np.ndarray, " tasks"],
    returns: Float[np.ndarray, "agents tasks episodes"],
    measure: str = "return",
) -> Table:
    """Return the returns of agents on each task, beside its target.

    Args:
        tasks: The names of the tasks.
        targets: The return of an agent that masters the task.
        returns: The return of each episode.
        measure: The name of the measure: return or success.
    """
    header = ("task", measure, "worst agent", "best agent", "target")
    # The agents are the samples of the interval; episodes of one agent are not
    # independent.
    per_agent = returns.mean(-1)
    rows = [
        (
            task,
            str(mean_interval(per_agent[:, number])),
            f"{per_agent[:, number].min():.2f}",
            f"{per_agent[:, number].max():.2f}",
            f"{targets[number]:.2f}",
        )
        for number, task in enumerate(tasks)
    ]
    agents, _, episodes = returns.shape
    title = f"{agents} agent{'s' * (agents > 1)}, episodes on each task: {episodes}"
    return Table(title, header, rows)


def total_line(record: Record) -> str:
    """Return the total evaluation against the ideal, in one line."""
    total = mean_interval(record.total_evaluation)
    return f"total evaluation {total} of {record.ideal_total:g}"


def collection_tables(collection: Collection) -> list[Table]:
    """Return the paper's claims and the comparison, or each run if none is finished."""
    comparison = collection.comparison
    if comparison is None:
        return [task_table(record) for record in collection.records]
    claims = claims_table(Runs(comparison, collection.masks))
    return [*([claims] if claims.rows else []), *comparison_tables(comparison)]


def claims_table(runs: Runs) -> Table:
    """Return the paper's claims with their verdicts and the evidence."""
    rows = [
        (claim.name, claim.statement, verdict.word, claim.explain(verdict, runs))
        for claim, verdict in verdicts(runs).values()
    ]
    header = ("claim", "statement", "verdict", "evidence")
    note = (
        "95 % intervals over seeds; open: the runs leave doubt. docs/reproduce.md "
        "explains each verdict."
    )
    return Table("Claims of the paper", header, rows, note, prose=True)


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Return all tables of a comparison; those without rows are left out."""
    tables = [evaluation_table(comparison), retention_table(comparison)]
    if comparison.first_record.by_success:
        tables.append(continual_world_table(comparison))
    tables += cora_tables(comparison)
    measures = [comparison.life_measure]
    if comparison.experts is not None:
        tables += [transfer_table(comparison), transfer_per_task_table(comparison)]
        measures.append("forward_transfer")
    tables += [steps_table(comparison, share) for share in (PUBLISHED_SHARE, 0.5)]
    tables.append(area_table(comparison))
    tables += [significance_table(comparison, measure) for measure in measures]
    # With one seed per method there is no test, and its table is empty.
    return [table for table in tables if table.rows]


def evaluation_table(comparison: Comparison) -> Table:
    """Return the total evaluation of each method over its whole life."""
    rows = []
    for method, record in comparison.records.items():
        total = comparison.interval("total_evaluation", method)
        middle = comparison.interquartile_mean(method)
        rows.append(
            (
                method,
                str(total),
                _published(record, "total_evaluation"),
                _difference(record, "total_evaluation", total),
                f"{total.mean / record.ideal_total:.1%}",
                # Resampling a single seed would give an interval of width 0.
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
    record = comparison.first_record
    title = f"Total evaluation on {record.curriculum}"
    # One ideal is right for all methods only if they have equally many evaluations.
    if comparison.life_measure == "total_evaluation":
        title += f" (ideal {record.ideal_total:g})"
    return Table(title, header, rows, "Mean ± 95 % Student-t interval over seeds.")


def retention_table(comparison: Comparison) -> Table:
    """Return performance at the end, forgetting and transfer, as means over tasks."""
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
    # Apart from the other measures: forgetting is defined otherwise there.
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
    """Return forward transfer over seeds, and pooled as in the paper."""
    rows = [
        (
            method,
            str(comparison.interval("forward_transfer", method)),
            str(pooled := comparison.transfer_pooled_over_seeds_and_tasks(method)),
            _published(record, "forward_transfer"),
            # Pooled against pooled: the published interval is pooled, too.
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
    # The paper prints means without intervals, task by task.
    for method, record in comparison.records.items():
        transfer = comparison.transfer(method).mean(0)
        rows.append((method, *map(_number, transfer)))
        published = published_numbers(record).get("forward_transfer_per_task")
        if published is not None:
            rows.append(("  published", *map(_number, published)))
    header = ("method", *comparison.first_record.tasks)
    return Table("Forward transfer per task", header, rows, "Means over seeds.")


def steps_table(comparison: Comparison, share: float) -> Table:
    """Return the thousands of steps to a share of each task's target."""
    rows = []
    for method, record in comparison.records.items():
        rows.append((method, *_thousands(record.steps_to_target(share))))
        published = published_numbers(record).get("steps_to_target_per_task")
        if published is not None and share == PUBLISHED_SHARE:
            rows.append(("  published", *_thousands(published)))
    header = ("method", *(curve.task for curve in comparison.first_record.training))
    title = f"Thousands of steps to {share:.0%} of the target"
    note = "Read off the training return averaged over seeds, as in the paper."
    return Table(title, header, rows, note)


def area_table(comparison: Comparison) -> Table:
    """Return the area under each task's training curve, experts included."""
    rows = [
        (method, *map(_number, record.areas.mean(0)))
        for method, record in comparison.all_records.items()
    ]
    header = ("method", *comparison.first_record.tasks)
    return Table("Area under the training curve", header, rows, "Means over seeds.")


def significance_table(comparison: Comparison, measure: str) -> Table:
    """Return the tests of all methods against the reference in one measure."""
    rows = []
    reference = comparison.records[comparison.reference]
    for test in comparison.tests(measure):
        record = comparison.records[test.method]
        published = published_test(record, reference, measure)
        rows.append(
            (
                test.method,
                str(test.difference),
                _number(test.p_value, ".3g"),
                _number(test.corrected, ".3g"),
                _number(published["welch_p"], ".3g") if published else ABSENT,
                _range(published["bootstrap_ci"]) if published else ABSENT,
                str(comparison.probability_of_improvement(measure, test.method)),
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


def _difference(record: Record, measure: str, interval: Interval) -> str:
    published = published_interval(published_numbers(record).get(measure))
    return ABSENT if published is None else f"{interval.mean - published.mean:+.2f}"


def _number(value: float, form: str = ".2f") -> str:
    return ABSENT if np.isnan(value) else format(value, form)


def _thousands(steps: Sequence[int | None]) -> list[str]:
    return ["fail" if count is None else f"{count / 1000:.0f}" for count in steps]
