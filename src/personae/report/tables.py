"""Tables for the terminal."""

from rich.table import Table

from personae.metrics import mean_interval
from personae.report.record import Record


def task_table(record: Record) -> Table:
    """Return the tasks in the order they were learned, and how each went."""
    table = Table(title=record.title)
    table.add_column("#", justify="right")
    table.add_column("task")
    table.add_column("steps to 75 %", justify="right")
    table.add_column("last training return", justify="right")
    table.add_column("evaluation when learned", justify="right")
    table.add_column("evaluation at the end", justify="right")
    steps = record.steps_to_target()
    for visit, (curve, reached) in enumerate(zip(record.training, steps, strict=True)):
        task = record.tasks.index(curve.task)
        during = record.evaluation_visit == visit
        per_task = record.evaluations[:, :, task].mean(0)
        table.add_row(
            str(visit + 1),
            curve.task,
            "not reached" if reached is None else f"{reached:,}",
            f"{curve.returns[:, -1].mean():.2f}",
            f"{per_task[during][-1]:.2f}" if during.any() else "not yet",
            f"{per_task[-1]:.2f}",
        )
    return table


def total_line(record: Record) -> str:
    """Return the total evaluation against the ideal, in one line."""
    total = mean_interval(record.total_evaluation)
    return f"total evaluation {total} of {record.ideal_total:g}"
