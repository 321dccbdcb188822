"""The command line: `personae learn`, `compare`, `report` and `curricula`."""

import dataclasses
import itertools
import os
import shlex
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import rich.markup
import tyro
from rich.console import Console
from rich.table import Table

from personae.api import compare, learn
from personae.curricula import Curriculum, Preset, find_curriculum, registered
from personae.errors import PersonaeError, UsageError, nearest_match_error, require
from personae.report import (
    Collection,
    LivePage,
    collect,
    lifelong_curves,
    make_server,
    save_figure,
    task_table,
    total_line,
    watch,
    with_masks,
    write_report,
)
from personae.report.write import PLOTLY

OUTPUT = Console()
ERRORS = Console(stderr=True)
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def _settings(source: Preset) -> dict[str, Any]:
    """Return the settings that have flags, as a curriculum or a command has them."""
    names = [field.name for field in dataclasses.fields(Preset)]
    return {name: getattr(source, name) for name in names}


def _curriculum(name: str, command: Preset) -> Curriculum:
    """Return a curriculum with the settings of a command."""
    return dataclasses.replace(find_curriculum(name), **_settings(command))


@dataclass(frozen=True)
class Learn(Preset):
    """Learn a curriculum, task after task, with one agent per seed.

    Give the curriculum first: `personae learn ct8 --help` then shows its preset.
    Example: personae learn ct8 --method mask-blc --seeds 5 --out runs/ct8-blc
    """

    curriculum: tyro.conf.Positional[str]
    """A name that `personae curricula` lists, or a .toml or .json file."""
    method: str = "mask-blc"
    """mask-ri: each mask from scratch; mask-lc: composed with all earlier masks at
    equal weights; mask-blc: composed, the new mask with half of the weight;
    mask-ri-top-k: a fixed share of weights on. Baselines, one trained network: ppo
    (fine-tuning), expert (a new one per task), ewc-sh and ewc-mh (elastic weight
    consolidation, one head or one per task), l2, packnet."""
    seeds: int = 1
    """How many agents to train side by side."""
    first_seed: int = 0
    """Seed of the first agent; the others count on from it."""
    steps_per_task: int | None = None
    """Environment steps on each task; the curriculum's own if left out."""
    out: Path | None = None
    """Directory to write to; runs/CURRICULUM-METHOD if left out."""
    resume: bool = False
    """Go on with the run in the output directory, or start it if there is none."""
    overwrite: bool = False
    """Delete the run in the output directory first."""
    quiet: bool = False
    """Show no progress and no table, only where the results are."""
    log_to: str = ""
    """Where else the metrics go: tensorboard, wandb, or both with a comma."""

    def __call__(self) -> None:
        """Run the command."""
        curriculum = _curriculum(self.curriculum, self)
        out = self.out or Path("runs") / f"{curriculum.short_name}-{self.method}"
        record = learn(
            curriculum,
            self.method,
            seeds=range(self.first_seed, self.first_seed + self.seeds),
            steps_per_task=self.steps_per_task,
            out=out,
            resume=self.resume,
            overwrite=self.overwrite,
            quiet=self.quiet,
            log_to=[name.strip() for name in self.log_to.split(",") if name.strip()],
        )
        picture = save_figure(lifelong_curves([record]), out / "lifelong.png")
        if not self.quiet:
            OUTPUT.print(task_table(record).to_rich())
        _say(OUTPUT, total_line(record))
        _say(OUTPUT, f"picture: {picture}")


@dataclass(frozen=True)
class Compare(Preset):
    """Learn a curriculum with several methods; print tables beside the paper's.

    Each method, and the experts that forward transfer is measured against, has a
    directory in --out. What is there is taken as it is, what was stopped goes on, what
    is missing is run: give the same command again at any time.
    Example: personae compare ct8 --methods mask-lc,mask-blc,ewc-mh --out runs/ct8
    """

    curriculum: tyro.conf.Positional[str]
    """A name that `personae curricula` lists, or a .toml or .json file."""
    methods: str = "mask-ri,mask-lc,mask-blc,ppo,ewc-mh"
    """Methods, separated by commas; `personae learn --help` tells them apart."""
    seeds: int = 5
    """How many agents to train side by side with each method."""
    first_seed: int = 0
    """Seed of the first agent; the others count on from it."""
    steps_per_task: int | None = None
    """Environment steps on each task; the curriculum's own if left out."""
    out: Path | None = None
    """Directory to write to; runs/CURRICULUM if left out."""
    reference: str | None = None
    """Method that the others are tested against: mask-lc, or else the first."""
    quiet: bool = False
    """Show no progress, only the tables."""

    def __call__(self) -> None:
        """Run the command."""
        curriculum = _curriculum(self.curriculum, self)
        out = self.out or Path("runs") / curriculum.short_name
        comparison = compare(
            curriculum,
            [name.strip() for name in self.methods.split(",")],
            seeds=range(self.first_seed, self.first_seed + self.seeds),
            steps_per_task=self.steps_per_task,
            out=out,
            reference=self.reference,
            quiet=self.quiet,
        )
        records = list(comparison.records.values())
        collection = with_masks(records, comparison.experts, comparison, [])
        for table in collection.tables:
            OUTPUT.print(table.to_rich())
        for remark in collection.remarks:
            _say(OUTPUT, remark)
        _write_report(collection, out)


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
    watch: bool = False
    """Serve the page at http://127.0.0.1:PORT, renewed as evaluations land."""
    port: int = 8000
    """Where to serve it."""

    def __call__(self) -> None:
        """Run the command."""
        require(len(self.runs) > 0, "which runs? Give their directories")
        if self.watch:
            self._serve()
            return
        collection = collect(self.runs, self.reference)
        for problem in collection.problems:
            _say(ERRORS, problem)
        _write_report(collection, self.out or self.runs[0])

    def _serve(self) -> None:
        live = LivePage(self.runs, self.reference)
        server = make_server(live, self.port)
        address = f"http://127.0.0.1:{server.server_address[1]}"
        _say(OUTPUT, f"{address} shows the runs as they go; Ctrl-C ends it")
        watch(live, server, threading.Event())


def _write_report(collection: Collection, out: Path) -> None:
    page = write_report(collection, out)
    _say(OUTPUT, f"report: {page}" if page else PLOTLY)
    _say(OUTPUT, f"figures: {out / 'figures'}")
    _say(OUTPUT, f"tables: {out / 'tables'}")


def _say(console: Console, text: str) -> None:
    """Print a line as it is: names in it are no markup."""
    console.print(text, highlight=False, soft_wrap=True, markup=False)


@dataclass(frozen=True)
class Curricula:
    """List the curricula, or show the tasks of one in order."""

    name: tyro.conf.Positional[str | None] = None
    """A curriculum to show: a listed name, or a .toml or .json file."""
    toml: bool = False
    """Print it as TOML, to start one of your own from."""

    def __call__(self) -> None:
        """Run the command."""
        if self.name is None:
            OUTPUT.print(_list_of_curricula())
        elif self.toml:
            print(find_curriculum(self.name).to_toml(), end="")
        else:
            OUTPUT.print(_tasks_of(find_curriculum(self.name)))


def _list_of_curricula() -> Table:
    table = Table("name", "id", "tasks", "steps per task", "description")
    for curriculum in registered().values():
        table.add_row(
            curriculum.short_name,
            curriculum.id,
            str(len(curriculum.visits)),
            f"{curriculum.steps_per_task:,}",
            curriculum.description,
        )
    mazes = ("personae/Crossing-N-v0", "N", "256,000", "Minigrid: N random mazes.")
    table.add_row("crossing-N, lava-crossing-N", *mazes)
    return table


def _shown(value: Any) -> str:
    """Return an option as text; a drawing of several lines as one."""
    drawing = isinstance(value, list) and all(isinstance(row, str) for row in value)
    return "\n" + "\n".join(value) if drawing else str(value)


def _tasks_of(curriculum: Curriculum) -> Table:
    title = f"{curriculum.id}: {curriculum.description}"
    table = Table("#", "task", "environment", "options", "label", "steps", title=title)
    for number, index in enumerate(curriculum.visits):
        task = curriculum.tasks[index]
        options = ", ".join(f"{k}={_shown(v)}" for k, v in task.options.items())
        label, steps = str(curriculum.labels[index]), f"{curriculum.steps_of(index):,}"
        table.add_row(str(number + 1), task.name, task.env, options, label, steps)
    return table


def _parse(arguments: Sequence[str], curriculum: str | None) -> Any:
    """Parse the command line, with a curriculum's own settings as defaults."""
    learn_default: dict[str, Any] = {}
    compare_default: dict[str, Any] = {}
    if curriculum is not None:
        settings = _settings(find_curriculum(curriculum))
        learn_default["default"] = Learn(curriculum, **settings)
        compare_default["default"] = Compare(curriculum, **settings)
    return tyro.cli(
        Annotated[Learn, tyro.conf.subcommand("learn", **learn_default)]
        | Annotated[Compare, tyro.conf.subcommand("compare", **compare_default)]
        | Annotated[Report, tyro.conf.subcommand("report")]
        | Annotated[Curricula, tyro.conf.subcommand("curricula")],
        prog="personae",
        description="Lifelong reinforcement learning with modulating masks.",
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def _check_choices(arguments: Sequence[str]) -> None:
    """Name the nearest match of a mistyped command or choice; tyro lists them only."""
    commands = ("learn", "compare", "report", "curricula")
    first = arguments[0] if arguments else ""
    if first and not first.startswith("-") and first not in commands:
        raise nearest_match_error("command", first, commands)
    words = [part for word in arguments for part in word.split("=", 1)]
    choices = _choices(Preset)
    for flag, value in itertools.pairwise(words):
        if value not in choices.get(flag, (value,)):
            raise nearest_match_error(f"value of {flag}", value, choices[flag])


def _choices(settings: type, prefix: str = "--") -> dict[str, tuple[str, ...]]:
    """Return the flags of a dataclass that take one of several words, with these."""
    found = {}
    for name, kind in get_type_hints(settings).items():
        flag = prefix + name.replace("_", "-")
        if get_origin(kind) is Literal:
            found[flag] = get_args(kind)
        elif dataclasses.is_dataclass(kind) and isinstance(kind, type):
            found |= _choices(kind, f"{flag}.")
    return found


def _command(arguments: Sequence[str]) -> Any:
    _check_choices(arguments)
    match arguments:
        case ["learn" | "compare", name, *_] if not name.startswith("-"):
            return _parse(arguments, name)
    command = _parse(arguments, None)
    if isinstance(command, Learn | Compare):
        # The curriculum did not come first, but its preset still counts.
        return _parse(arguments, command.curriculum)
    return command


def _farewell(arguments: Sequence[str]) -> str:
    """Say that the command was stopped and, if it can be, how to go on."""
    if "compare" in arguments[:1]:
        return f"stopped; go on with: {shlex.join(['personae', *arguments])}"
    if "learn" not in arguments[:1]:
        return "stopped"
    kept = [word for word in arguments if word not in ("--overwrite", "--resume")]
    return "stopped; go on with: " + shlex.join(["personae", *kept, "--resume"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        _command(arguments)()
    except (PersonaeError, OSError) as error:
        text = rich.markup.escape(str(error))
        ERRORS.print(f"[bold red]error:[/] {text}", highlight=False, soft_wrap=True)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        text = rich.markup.escape(_farewell(arguments))
        ERRORS.print(text, highlight=False, soft_wrap=True)
        return INTERRUPTED
    return 0


def run() -> None:
    """Run the command line and leave with its exit code."""
    code = main()
    if code == INTERRUPTED:
        # A thread may still be computing: leave without waiting for it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    run()
