"""`personae evaluate`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import tyro

from personae.cli.console import OUTPUT, say
from personae.errors import require
from personae.report import returns_table, save_film, side_by_side
from personae.training import RestoredRun

ALL = "all.gif"
"""The films of all tasks, side by side."""


@dataclass(frozen=True)
class Evaluate:
    """Play every task with the agents of a run, as they are now.

    A run that is still going is played from its last checkpoint. With --video, one
    agent is filmed too: RUN/videos/TASK.gif, and all of them beside each other.
    Example: personae evaluate runs/demo --video
    """

    run: tyro.conf.Positional[Path]
    """A run directory, as `personae learn` leaves it."""
    episodes: int | None = None
    """Episodes per task; as many as while learning if left out."""
    acting: Literal["as-learned", "greedy", "sample"] = "as-learned"
    """Take the most likely actions (greedy) or draw them (sample); as-learned does what
    the run's own evaluations do."""
    video: bool = False
    """Film an episode of each task."""
    tasks: str = ""
    """The tasks to film, separated by commas; all if left out."""
    seed: int | None = None
    """The agent to film; the first if left out."""

    def __call__(self) -> None:
        """Run the command."""
        asked = self.tasks or self.seed is not None
        require(self.video or not asked, "--tasks and --seed choose what --video films")
        revival = RestoredRun(self.run)
        names = [task.name for task in revival.tasks]
        filmed = [name.strip() for name in self.tasks.split(",") if name.strip()]
        seed = revival.config.seeds[0] if self.seed is None else self.seed
        for task in filmed or names:
            revival.check(task, seed)
        protocol = revival.config.curriculum.evaluation
        if self.acting != "as-learned":
            protocol = replace(protocol, greedy=self.acting == "greedy")
        if self.episodes is not None:
            protocol = replace(protocol, episodes=self.episodes)
        targets = np.array([task.target for task in revival.tasks])
        played = revival.evaluate(protocol).measured
        measure = protocol.measure or "return"
        table = returns_table(names, targets, played, measure)
        OUTPUT.print(table.to_rich())
        if self.video:
            self._film(revival, filmed or names, seed, protocol.greedy)

    def _film(
        self, revival: RestoredRun, tasks: list[str], seed: int, greedy: bool
    ) -> None:
        folder, films = self.run / "videos", []
        for task in tasks:
            film = revival.film(task, seed, greedy=greedy)
            path = save_film(film.frames, folder / f"{task}.gif")
            cut = "" if film.whole else ", and then it was cut"
            say(OUTPUT, f"{path}: {len(film.frames) - 1} steps, {film.total:.2f}{cut}")
            films.append(film.frames)
        if len(films) > 1:
            say(OUTPUT, f"{save_film(side_by_side(films), folder / ALL)}: all of them")
