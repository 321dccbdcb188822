"""`personae report`."""

import threading
from dataclasses import dataclass
from pathlib import Path

import tyro

from personae.cli.console import ERRORS, OUTPUT, Switch, names_in, say
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

    The page (report.html) works offline. Figures are PNG and PDF; tables are Markdown,
    LaTeX and CSV. Runs need not have ended: --watch serves a page that follows them.
    Example: personae report runs/ct8
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, or directories that contain some."""
    out: Path | None = None
    """Directory to write to. By default it is the first of the runs."""
    reference: str | None = None
    """Method that the others are tested against. By default it is mask-lc, or else the
    first method."""
    despite: str = ""
    """Settings in which compared runs may differ, separated by commas, such as
    impala.num_envs. The page lists the values of each run."""
    watch: Switch = False
    """Serve the page at http://127.0.0.1:PORT and renew it after each evaluation."""
    port: int = 8000
    """Port of the served page."""

    def __call__(self) -> None:
        """Run the command."""
        # The parser itself accepts an empty list.
        require(len(self.runs) > 0, "give the directories of one or more runs")
        # As flags, settings have dashes: --despite impala.num-envs.
        despite = names_in(self.despite.replace("-", "_"))
        if self.watch:
            self._serve(despite)
            return
        collection = collect(self.runs, self.reference, despite)
        # Runs that cannot be read are left out; they do not stop the report.
        for problem in collection.problems:
            say(ERRORS, problem)
        show_report(collection, self.out or self.runs[0])

    def _serve(self, despite: list[str]) -> None:
        page = LivePage(self.runs, self.reference, despite)
        server = make_server(page, self.port)
        address = f"http://127.0.0.1:{server.server_address[1]}"
        say(OUTPUT, f"{address} shows the runs; Ctrl-C stops the server")
        watch(page, server, threading.Event())


def show_comparison(comparison: Comparison, out: Path) -> Collection:
    """Print the tables of a comparison, write its report, and return its data."""
    records = list(comparison.records.values())
    collection = with_masks(records, comparison.experts, comparison, [])
    for table in collection_tables(collection):
        OUTPUT.print(table.to_rich())
    for remark in collection_remarks(collection):
        say(OUTPUT, remark)
    show_report(collection, out)
    return collection


def show_report(collection: Collection, out: Path) -> None:
    """Write a report and print its paths."""
    page = write_report(collection, out)
    say(OUTPUT, f"report: {page}" if page else PLOTLY)
    say(OUTPUT, f"figures: {out / 'figures'}")
    say(OUTPUT, f"tables: {out / 'tables'}")
