"""`personae curricula`."""

from dataclasses import dataclass
from typing import Any

import tyro
from rich.table import Column, Table

from personae.cli.console import OUTPUT
from personae.curricula import Curriculum, find_curriculum, registered
from personae.curricula.crossing import SETTINGS as MAZE_SETTINGS


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
    name, steps = Column("name", no_wrap=True), Column("steps", no_wrap=True)
    table = Table(name, "tasks", steps, "description")
    for curriculum in registered().values():
        table.add_row(
            curriculum.short_name,
            str(len(curriculum.visits)),
            f"{curriculum.steps_per_task:,}",
            curriculum.description,
        )
    each = f"{MAZE_SETTINGS['steps_per_task']:,}"
    mazes = "Minigrid: N random mazes (lava-crossing-N: with lava)."
    table.add_row("crossing-N", "N", each, mazes)
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
