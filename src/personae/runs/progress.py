"""What a person sees while a run goes on: a live line, or plain lines in a file."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Progress:
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


Show = Callable[[Progress], None]
Reporter = AbstractContextManager[Show]
"""Entered for the length of a run, it gives the function that shows moments."""


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def progress_parts(moment: Progress) -> list[str]:
    """Return what there is to say of a moment, in words."""
    return [
        f"task {moment.visit}/{moment.num_visits} {moment.task}",
        f"{moment.steps:,}/{moment.total_steps:,} steps",
        f"return {moment.training_return:.2f}",
        f"evaluation {moment.evaluation:.2f}/{moment.best_evaluation:g}",
        f"{moment.steps_per_second:,.0f} steps/s",
        f"ETA {_clock(moment.seconds_left)}",
    ]


def _print_line(moment: Progress) -> None:
    stamp = time.strftime("%H:%M:%S")
    print(stamp, " | ".join(progress_parts(moment)), file=sys.stderr, flush=True)


@contextmanager
def _live_lines(console: Console) -> Iterator[Show]:
    """Show two lines that renew themselves, for terminals."""
    waiting = "compiling; the first chunk takes longest ..."
    with Live(waiting, console=console, refresh_per_second=4) as live:

        def show(moment: Progress) -> None:
            task, steps, *rest = progress_parts(moment)
            first = Table.grid(padding=(0, 2))
            bar = ProgressBar(moment.total_steps, moment.steps, width=24)
            first.add_row(Text(task, style="bold"), bar, Text(steps))
            live.update(Group(first, Text(" · ".join(rest))))

        yield show


def make_reporter(quiet: bool = False) -> Reporter:
    """Return the reporter that fits where standard error goes."""
    if quiet:
        return nullcontext(lambda moment: None)
    console = Console(stderr=True)
    return _live_lines(console) if console.is_terminal else nullcontext(_print_line)
