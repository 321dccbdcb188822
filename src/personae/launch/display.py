"""The progress of several runs on standard error: a line for each."""

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from rich.console import Console
from rich.live import Live as LiveDisplay
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from personae.runs.progress import Progress, print_line, progress_parts

WAITING, STARTING = "waiting", "starting"


class JobsDisplay:
    """Shows all runs, in a table that is redrawn or, in a file, line by line."""

    def __init__(
        self,
        names: Sequence[str],
        quiet: bool = False,
        console: Console | None = None,
    ):
        self._console = console or Console(stderr=True)
        self._quiet = quiet
        self._states = dict.fromkeys(names, WAITING)
        self._progress: dict[str, Progress] = {}
        self._table: LiveDisplay | None = None
        self._open = ExitStack()

    def __enter__(self) -> "JobsDisplay":
        # A file would fill with copies of the table.
        if self._console.is_terminal and not self._quiet:
            self._table = self._open.enter_context(
                LiveDisplay(
                    self._draw_table(), console=self._console, refresh_per_second=4
                )
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def begin(self, name: str) -> None:
        """Show that a run has begun."""
        self._states[name] = STARTING
        self._redraw()

    def show(self, name: str, progress: Progress) -> None:
        """Show the progress of a run."""
        self._progress[name] = progress
        self._states[name] = ""
        if self._table is None:
            self._print(name, " | ".join(progress_parts(progress)))
        self._redraw()

    def end(self, name: str, word: str) -> None:
        """Show that a run has ended, in a word."""
        self._states[name] = word
        if self._table is None:
            self._print(name, word)
        self._redraw()

    def note(self, name: str, line: str) -> None:
        """Show a line that a run has printed."""
        if self._table is None:
            self._print(name, line)
        else:
            # As text: rich would take brackets in it for markup.
            text = Text(f"{name}: {line}")
            self._table.console.print(text, soft_wrap=True)

    def _print(self, name: str, text: str) -> None:
        if not self._quiet:
            print_line(f"{name}: {text}")

    def _redraw(self) -> None:
        if self._table is not None:
            self._table.update(self._draw_table())

    def _draw_table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, state in self._states.items():
            progress = self._progress.get(name)
            if progress is None:
                table.add_row(Text(name, style="bold"), Text(state, style="dim"))
                continue
            task, _, _, evaluation, speed, time_left = progress_parts(progress)
            bar = ProgressBar(progress.total_steps, progress.steps, width=20)
            title, last = Text(name, style="bold"), state or time_left
            table.add_row(title, task, bar, evaluation, speed, last)
        return table
