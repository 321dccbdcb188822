"""What a person sees while several runs go on: a line for each."""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from personae.runs.progress import Progress, progress_parts

WAITING, STARTING = "waiting", "starting"


class JobsDisplay:
    """Shows all runs, in a table that renews itself or, in a file, line by line."""

    def __init__(
        self,
        names: Sequence[str],
        quiet: bool = False,
        console: Console | None = None,
    ):
        self._console = console or Console(stderr=True)
        self._quiet = quiet
        self._words = dict.fromkeys(names, WAITING)
        self._moments: dict[str, Progress] = {}
        self._live: Live | None = None
        self._open = ExitStack()

    def __enter__(self) -> "JobsDisplay":
        if self._console.is_terminal and not self._quiet:
            live = Live(self._table(), console=self._console, refresh_per_second=4)
            self._live = self._open.enter_context(live)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def begin(self, name: str) -> None:
        """Say that a run has begun."""
        self._words[name] = STARTING
        self._renew()

    def show(self, name: str, moment: Progress) -> None:
        """Show the state of a run."""
        self._moments[name] = moment
        self._words[name] = ""
        if self._live is None:
            self._print(name, " | ".join(progress_parts(moment)))
        self._renew()

    def end(self, name: str, word: str) -> None:
        """Say that a run has ended, in a word."""
        self._words[name] = word
        if self._live is None:
            self._print(name, word)
        self._renew()

    def note(self, name: str, line: str) -> None:
        """Show what a run has to say."""
        text = Text(f"{name}: {line}")
        if self._live is not None:
            self._live.console.print(text, soft_wrap=True)
        else:
            self._print(name, line)

    def _print(self, name: str, text: str) -> None:
        if not self._quiet:
            stamp = time.strftime("%H:%M:%S")
            print(stamp, f"{name}: {text}", file=sys.stderr, flush=True)

    def _renew(self) -> None:
        if self._live is not None:
            self._live.update(self._table())

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, word in self._words.items():
            moment = self._moments.get(name)
            if moment is None:
                table.add_row(Text(name, style="bold"), Text(word, style="dim"))
                continue
            task, _, _, evaluation, speed, left = progress_parts(moment)
            bar = ProgressBar(moment.total_steps, moment.steps, width=20)
            last = word or left
            table.add_row(Text(name, style="bold"), task, bar, evaluation, speed, last)
        return table
