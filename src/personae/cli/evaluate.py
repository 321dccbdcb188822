"""`personae evaluate`."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro

from personae.cli.console import OUTPUT, say
from personae.report import returns_table, save_film
from personae.training import Revival


@dataclass(frozen=True)
class Evaluate:
    """Play every task with the agents of a run, as they are now; film them.

    A run that is still going is played from its last checkpoint.
    Example: personae evaluate runs/demo --video
    """

    run: tyro.conf.Positional[Path]
    """A run directory, as `personae learn` leaves it."""
    episodes: int | None = None
    """Episodes per task; as many as while learning if left out."""
    sample: bool = False
    """Sample actions; the most likely ones are taken otherwise."""
    video: bool = False
    """Film an episode of each task: RUN/videos/TASK.gif."""
    tasks: str = ""
    """The tasks to film, separated by commas; all if left out."""
    seed: int | None = None
    """The agent to film; the first if left out."""

    def __call__(self) -> None:
        """Run the command."""
        revival = Revival(self.run)
        asked = replace(revival.config.curriculum.evaluation, greedy=not self.sample)
        if self.episodes is not None:
            asked = replace(asked, episodes=self.episodes)
        tasks = [task.name for task in revival.tasks]
        targets = np.array([task.target for task in revival.tasks])
        table = returns_table(tasks, targets, revival.evaluate(asked))
        OUTPUT.print(table.to_rich())
        if self.video:
            self._film(revival, tasks)

    def _film(self, revival: Revival, tasks: list[str]) -> None:
        for task in self.tasks.split(",") if self.tasks else tasks:
            film = revival.film(task.strip(), self.seed, greedy=not self.sample)
            path = save_film(film.frames, self.run / "videos" / f"{task.strip()}.gif")
            say(OUTPUT, f"{path}: {len(film.frames) - 1} steps, {film.total:.2f}")
