"""The progress of a run on standard error: a live display, or lines in a file."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live as LiveDisplay
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Progress:
    """The report of a run after a chunk; returns are means over the agents."""

    visit: int
    """Number of the visit being trained, from 1."""
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


Show = Callable[[Progress], None]
Reporter = AbstractContextManager[Show]
"""Entered for the length of a run, it gives the function that shows progress."""


def progress_parts(progress: Progress) -> list[str]:
    """Return the parts of a progress report as text."""
    return [
        f"task {progress.visit}/{progress.num_visits} {progress.task}",
        f"{progress.steps:,}/{progress.total_steps:,} steps",
        f"return {progress.training_return:.2f}",
        f"evaluation {progress.evaluation:.2f}/{progress.best_evaluation:g}",
        f"{progress.steps_per_second:,.0f} steps/s",
        f"ETA {_clock(progress.seconds_left)}",
    ]


def print_line(text: str) -> None:
    """Print a line with the time to standard error."""
    # Standard output stays free for results, which users pipe elsewhere.
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def make_reporter(quiet: bool = False) -> Reporter:
    """Return a reporter for standard error, which may be a terminal or a file."""
    if quiet:
        return nullcontext(lambda progress: None)
    console = Console(stderr=True)
    return _live_lines(console) if console.is_terminal else nullcontext(_print_progress)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _print_progress(progress: Progress) -> None:
    print_line(" | ".join(progress_parts(progress)))


@contextmanager
def _live_lines(console: Console) -> Iterator[Show]:
    """Show two lines on a terminal that are replaced at each report."""
    waiting = "compiling; the first chunk takes longest ..."
    with LiveDisplay(waiting, console=console, refresh_per_second=4) as display:

        def show(progress: Progress) -> None:
            task, steps, *others = progress_parts(progress)
            # Two lines, since one of all parts does not fit into 80 columns.
            first = Table.grid(padding=(0, 2))
            bar = ProgressBar(progress.total_steps, progress.steps, width=24)
            first.add_row(Text(task, style="bold"), bar, Text(steps))
            display.update(Group(first, Text(" · ".join(others))))

        yield show
