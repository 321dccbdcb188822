"""What a person sees while a run goes on: a live line, or plain lines in a file."""

import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, runtime_checkable

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table


@dataclass(frozen=True)
class Moment:
    """The state of a run after a chunk; returns are means over the agents."""

    visit: int
    """Visits begun."""
    num_visits: int
    task: str
    steps: int
    """Environment steps of one agent so far, in the whole run."""
    total_steps: int
    training_return: float
    """Return of the last iteration's episodes."""
    evaluation: float
    """Sum over all tasks of the last evaluation."""
    best_evaluation: float
    """The same for an agent that masters all tasks."""
    steps_per_second: float
    """Speed of the last chunk, all agents together."""
    seconds_left: float


@runtime_checkable
class Reporter(Protocol):
    """Shows moments; used as a context, so that a live display is always ended."""

    def __enter__(self) -> "Reporter":
        """Start showing."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop showing."""
        ...

    def show(self, moment: Moment) -> None:
        """Show where the run is."""
        ...


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _parts(moment: Moment) -> list[str]:
    return [
        f"task {moment.visit}/{moment.num_visits} {moment.task}",
        f"{moment.steps:,}/{moment.total_steps:,} steps",
        f"return {moment.training_return:.2f}",
        f"evaluation {moment.evaluation:.2f}/{moment.best_evaluation:g}",
        f"{moment.steps_per_second:,.0f} steps/s",
        f"ETA {_clock(moment.seconds_left)}",
    ]


class _Quiet:
    """Shows nothing; the others add to it."""

    def __enter__(self) -> "Reporter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def show(self, moment: Moment) -> None:
        """Show nothing."""


class _Lines(_Quiet):
    """One plain line per evaluation, for log files."""

    def show(self, moment: Moment) -> None:
        """Print a line."""
        stamp = time.strftime("%H:%M:%S")
        print(stamp, " | ".join(_parts(moment)), file=sys.stderr, flush=True)


class _Display(_Quiet):
    """A line that renews itself, for terminals."""

    def __init__(self, console: Console):
        self._live = Live(console=console, refresh_per_second=4)
        self._live.update("compiling; the first chunk takes longest ...")

    def __enter__(self) -> "Reporter":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, moment: Moment) -> None:
        """Renew the line."""
        task, steps, *rest = _parts(moment)
        grid = Table.grid(padding=(0, 2))
        bar = ProgressBar(moment.total_steps, moment.steps, width=24)
        grid.add_row(f"[bold]{task}[/]", bar, steps, *rest)
        self._live.update(grid)


def make_reporter(quiet: bool = False) -> Reporter:
    """Return the reporter that fits where standard error goes."""
    if quiet:
        return _Quiet()
    console = Console(stderr=True)
    return _Display(console) if console.is_terminal else _Lines()
