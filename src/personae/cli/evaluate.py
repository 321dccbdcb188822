"""`personae evaluate`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import tyro

from personae.cli.console import OUTPUT, Switch, names_in, say
from personae.errors import require
from personae.report import returns_table, save_film, side_by_side
from personae.training import RestoredRun

ALL = "all.gif"
"""The file with the films of all tasks, side by side."""


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the agents of a run on every task of its curriculum.

    The agents are those of the last checkpoint, also of a run that has not ended. With
    --video, one agent is filmed too: RUN/videos/TASK.gif, and all tasks side by side.
    Example: personae evaluate runs/demo --video
    """

    run: tyro.conf.Positional[Path]
    """A run directory, which `personae learn` has written."""
    episodes: int | None = None
    """Episodes per task. By default they are as many as in the run's evaluations."""
    acting: Literal["as-learned", "greedy", "sample"] = "as-learned"
    """Choice of actions: greedy takes the most likely ones, sample draws them, and
    as-learned does the same as the run's own evaluations."""
    video: Switch = False
    """Film an episode of each task."""
    tasks: str = ""
    """The tasks to film, separated by commas. By default all are filmed."""
    seed: int | None = None
    """Seed of the agent to film. By default it is the first agent."""

    def __call__(self) -> None:
        """Run the command."""
        film_options = self.tasks or self.seed is not None
        require(
            self.video or not film_options,
            "--tasks and --seed choose what --video films",
        )
        run = RestoredRun(self.run)
        names = [task.name for task in run.tasks]
        film_tasks = names_in(self.tasks) or names
        seed = run.config.seeds[0] if self.seed is None else self.seed
        # A mistyped task or seed must be found before evaluations that take minutes.
        for task in film_tasks:
            run.check(task, seed)
        # By default as in the run, so that results compare with its own evaluations.
        protocol = run.config.curriculum.evaluation
        if self.acting != "as-learned":
            protocol = replace(protocol, greedy=self.acting == "greedy")
        if self.episodes is not None:
            protocol = replace(protocol, episodes=self.episodes)
        targets = np.array([task.target for task in run.tasks])
        evaluation = run.evaluate(protocol).measured
        measure = protocol.measure or "return"
        OUTPUT.print(returns_table(names, targets, evaluation, measure).to_rich())
        if self.video:
            self._film(run, film_tasks, seed, protocol.greedy)

    def _film(
        self, run: RestoredRun, tasks: list[str], seed: int, greedy: bool
    ) -> None:
        folder, films = self.run / "videos", []
        for task in tasks:
            film = run.film(task, seed, greedy=greedy)
            path = save_film(film.frames, folder / f"{task}.gif")
            cut = "" if film.whole else ", and then it was cut"
            # The first frame shows the start, before any step.
            say(OUTPUT, f"{path}: {len(film.frames) - 1} steps, {film.total:.2f}{cut}")
            films.append(film.frames)
        if len(films) > 1:
            say(OUTPUT, f"{save_film(side_by_side(films), folder / ALL)}: all of them")
