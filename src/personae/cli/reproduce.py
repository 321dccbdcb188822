"""`personae reproduce`."""

import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from personae.api import Plan, learn_all, plan_comparison
from personae.cli.console import OUTPUT, say
from personae.cli.report import show_comparison
from personae.curricula.paper_tables import TABLES, as_written
from personae.errors import nearest_match_error
from personae.launch.jobs import max_parallel_jobs
from personae.report import write_page
from personae.report.render.write import PLOTLY


@dataclass(frozen=True)
class Reproduce:
    """Reproduce tables of the paper: run their methods, judge its claims.

    Every method and the single-task experts have a directory in OUT/TABLE, and the page
    is OUT/TABLE/report.html; "all" ends with a page of all tables, OUT/report.html.
    Give the same command again to go on after a stop.
    Example: personae reproduce ct8 --seeds 5
    """

    table: tyro.conf.Positional[str]
    """ct8, ct12, ct8-md, mg10, or all of them."""
    seeds: int = 5
    """How many agents to train side by side with each method; the paper had 5."""
    out: Path = Path("runs/reproduce")
    """Directory to write to."""
    as_written: bool = False
    """Use the settings of the paper's text (eight epochs) where its code had others."""
    steps_per_task: int | None = None
    """Environment steps on each task, for a quick look; the paper's if left out."""
    jobs: int | None = None
    """How many runs to make at a time; what the machine has room for if left out."""
    on: str | None = None
    """A Ray cluster to make all runs on: ray for one of this machine, or an address,
    such as ray://HOST:10001. Its nodes share the output directory."""
    store: str | None = None
    """An fsspec URL that all nodes reach, such as s3://BUCKET/RUNS, if they share no
    folder; what is finished is brought to the output directory."""
    quiet: bool = False
    """Show no progress, only the tables."""

    def __call__(self) -> None:
        """Run the command."""
        if self.table not in (*TABLES, "all"):
            raise nearest_match_error("table", self.table, (*TABLES, "all"))
        began, plans = time.monotonic(), self._plans()
        every_job = [job for plan in plans.values() for job in plan.jobs]
        at_once = max_parallel_jobs(self.seeds) if self.jobs is None else self.jobs
        learn_all(every_job, at_once, self.quiet, self.on, self.store)
        say(OUTPUT, f"{len(every_job)} runs: {time.monotonic() - began:.0f} s")
        shown = [
            show_comparison(plan.result(), self.out / name)
            for name, plan in plans.items()
        ]
        if len(shown) > 1:
            say(OUTPUT, f"all tables: {write_page(shown, self.out) or PLOTLY}")
        say(OUTPUT, f"with the reports: {time.monotonic() - began:.0f} s")

    def _plans(self) -> dict[str, Plan]:
        return {
            name: plan_comparison(
                as_written(name) if self.as_written else name,
                TABLES[name],
                seeds=self.seeds,
                steps_per_task=self.steps_per_task,
                out=self.out / name,
                within=f"{name} ",
            )
            for name in (TABLES if self.table == "all" else [self.table])
        }
