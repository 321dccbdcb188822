"""`personae curricula`."""

from dataclasses import dataclass

import tyro
from rich.table import Column, Table

from personae.cli.console import OUTPUT, Switch
from personae.curricula import Curriculum, find_curriculum, registered
from personae.curricula.crossing import STEPS_PER_TASK as MAZE_STEPS


@dataclass(frozen=True)
class Curricula:
    """List the curricula, or show the tasks of one in order.

    Example: personae curricula ct8 --toml > mine.toml
    """

    name: tyro.conf.Positional[str | None] = None
    """A curriculum to show: a listed name, or a .toml or .json file."""
    toml: Switch = False
    """Print it as TOML, as the beginning of a curriculum of your own."""

    def __call__(self) -> None:
        """Run the command."""
        if self.name is None:
            OUTPUT.print(_list_of_curricula())
        elif self.toml:
            # Without rich, which would wrap long lines and break the file.
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
    # There is one for each N, so they have a row of their own instead of an entry.
    mazes = "Minigrid: N random mazes (lava-crossing-N: with lava)."
    table.add_row("crossing-N", "N", f"{MAZE_STEPS:,}", mazes)
    return table


def _option_text(value: object) -> str:
    """Return the value of an option as text; a list of text is a drawing of lines."""
    if isinstance(value, list) and all(isinstance(row, str) for row in value):
        return "\n" + "\n".join(value)
    return str(value)


def _tasks_of(curriculum: Curriculum) -> Table:
    title = f"{curriculum.id}: {curriculum.description}"
    table = Table("#", "task", "environment", "options", "label", "steps", title=title)
    for number, index in enumerate(curriculum.visits):
        task = curriculum.tasks[index]
        options = ", ".join(f"{k}={_option_text(v)}" for k, v in task.options.items())
        label, steps = str(curriculum.labels[index]), f"{curriculum.steps_of(index):,}"
        table.add_row(str(number + 1), task.name, task.env, options, label, steps)
    return table
