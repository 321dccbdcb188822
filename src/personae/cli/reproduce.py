"""`personae reproduce`."""

import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from personae.api import Plan, learn_all, plan_comparison
from personae.cli.console import OUTPUT, Switch, say
from personae.cli.many_runs import ManyRuns
from personae.cli.report import show_comparison
from personae.curricula.paper_tables import TABLES, as_written
from personae.errors import nearest_match_error
from personae.report import write_page
from personae.report.render.write import PLOTLY


@dataclass(frozen=True)
class Reproduce:
    """Reproduce tables of the paper: run their methods and check its claims.

    Every method has a directory in OUT/TABLE, and so have the single-task experts. The
    page is OUT/TABLE/report.html; "all" also writes a page of all tables,
    OUT/report.html. After a stop, the same command continues.
    Example: personae reproduce ct8 --seeds 5
    """

    table: tyro.conf.Positional[str]
    """ct8, ct12, ct8-md, mg10, or all of them."""
    seeds: int = 5
    """Number of agents to train side by side with each method; the paper had 5."""
    out: Path = Path("runs/reproduce")
    """Directory to write to."""
    as_written: Switch = False
    """Use the settings in the paper's text (eight epochs) where its code had others."""
    steps_per_task: int | None = None
    """Environment steps on each task, for a short trial. By default they are the
    paper's."""
    runs: tyro.conf.OmitArgPrefixes[ManyRuns] = ManyRuns()

    def __call__(self) -> None:
        """Run the command."""
        if self.table not in (*TABLES, "all"):
            raise nearest_match_error("table", self.table, (*TABLES, "all"))
        start = time.monotonic()
        # All tables are planned first: mistakes show before hours of training.
        plans = self._plans()
        # The jobs of all tables together, so that none waits for another table's last.
        jobs = [job for plan in plans.values() for job in plan.jobs]
        parallel_jobs = self.runs.parallel_jobs(self.seeds)
        learn_all(jobs, parallel_jobs, self.runs.quiet, self.runs.on, self.runs.store)
        say(OUTPUT, f"{len(jobs)} runs: {time.monotonic() - start:.0f} s")
        collections = [
            show_comparison(plan.result(), self.out / name)
            for name, plan in plans.items()
        ]
        if len(collections) > 1:
            say(OUTPUT, f"all tables: {write_page(collections, self.out) or PLOTLY}")
        say(OUTPUT, f"with the reports: {time.monotonic() - start:.0f} s")

    def _plans(self) -> dict[str, Plan]:
        return {
            name: plan_comparison(
                as_written(name) if self.as_written else name,
                TABLES[name],
                seeds=self.seeds,
                steps_per_task=self.steps_per_task,
                out=self.out / name,
                prefix=f"{name} ",
            )
            for name in (TABLES if self.table == "all" else [self.table])
        }
