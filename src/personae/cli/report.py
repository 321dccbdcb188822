"""`personae report`."""

import threading
from dataclasses import dataclass
from pathlib import Path

import tyro

from personae.cli.console import ERRORS, OUTPUT, say
from personae.errors import require
from personae.report import (
    Collection,
    Comparison,
    LivePage,
    collect,
    collection_remarks,
    collection_tables,
    make_server,
    watch,
    with_masks,
    write_report,
)
from personae.report.render.write import PLOTLY


@dataclass(frozen=True)
class Report:
    """Write a report from run directories alone: a page, figures, tables.

    The page (report.html) works offline; figures are PNG and PDF, tables Markdown,
    LaTeX and CSV. Runs may still be going: --watch serves the page and keeps it new.
    Example: personae report runs/ct8
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, or directories that hold some."""
    out: Path | None = None
    """Directory to write to; the first of the runs if left out."""
    reference: str | None = None
    """Method that the others are tested against: mask-lc, or else the first."""
    despite: str = ""
    """Settings in which runs may differ and are compared nevertheless, separated by
    commas, such as impala.num_envs; the page says who has which."""
    watch: bool = False
    """Serve the page at http://127.0.0.1:PORT, renewed as evaluations land."""
    port: int = 8000
    """Where to serve it."""

    def __call__(self) -> None:
        """Run the command."""
        require(len(self.runs) > 0, "which runs? Give their directories")
        names = self.despite.replace("-", "_").split(",")  # flags are spelled so
        despite = [name.strip() for name in names if name.strip()]
        if self.watch:
            self._serve(despite)
            return
        collection = collect(self.runs, self.reference, despite)
        for problem in collection.problems:
            say(ERRORS, problem)
        show_report(collection, self.out or self.runs[0])

    def _serve(self, despite: list[str]) -> None:
        live = LivePage(self.runs, self.reference, despite)
        server = make_server(live, self.port)
        address = f"http://127.0.0.1:{server.server_address[1]}"
        say(OUTPUT, f"{address} shows the runs as they go; Ctrl-C ends it")
        watch(live, server, threading.Event())


def show_comparison(comparison: Comparison, out: Path) -> Collection:
    """Print what methods achieve beside each other, write a report, return its data."""
    records = list(comparison.records.values())
    collection = with_masks(records, comparison.experts, comparison, [])
    for table in collection_tables(collection):
        OUTPUT.print(table.to_rich())
    for remark in collection_remarks(collection):
        say(OUTPUT, remark)
    show_report(collection, out)
    return collection


def show_report(collection: Collection, out: Path) -> None:
    """Write a report and say where it is."""
    page = write_report(collection, out)
    say(OUTPUT, f"report: {page}" if page else PLOTLY)
    say(OUTPUT, f"figures: {out / 'figures'}")
    say(OUTPUT, f"tables: {out / 'tables'}")
