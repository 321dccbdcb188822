"""Agents of a run brought back from its last checkpoint, to be evaluated and filmed."""

from contextlib import closing
from pathlib import Path

import numpy as np
from jaxtyping import Float

from personae.curricula.curriculum import Evaluation, Task
from personae.errors import PersonaeError, nearest_match_error
from personae.files import DamagedFileError
from personae.policy.jax.warm_start import apply_warm_start, read_warm_start
from personae.rollouts.film import Film
from personae.runs.checkpoints import Checkpoints, Position
from personae.runs.directory import RunDirectory
from personae.serialise import from_plain
from personae.training.config import RunConfig
from personae.training.factory import make_programs
from personae.training.programs import Programs
from personae.training.update import Agent

TRIES = 5
"""How often a checkpoint is looked for while a run replaces it."""


def restore_agents(
    programs: Programs, checkpoints: Checkpoints, position: Position, learned: int
) -> Agent:
    """Load a checkpoint's agents, who learned so many tasks, onto the devices."""
    shapes = programs.agents_shapes(position.visit, learned)
    shapes = programs.lanes.shapes_of_agents(shapes)
    loaded = checkpoints.load(position, shapes.method, shapes.live)
    return programs.lanes.place(Agent(*loaded))


class RestoredRun:
    """The agents of a run as they were at its last checkpoint."""

    def __init__(self, directory: Path | str):
        self.files = files = RunDirectory(directory)
        self.config = from_plain(RunConfig, files.read_run()["config"], "run.json")
        curriculum = self.config.curriculum
        self.config.prepare_backend()
        method = self.config.make_method()
        if self.config.warm_start is not None:
            data = read_warm_start(files)
            method = apply_warm_start(method, curriculum, data, self.config.warm_start)
        self.programs = make_programs(curriculum, method, self.config.seeds)
        self._schedule = self.config.make_schedule()
        self.agents = self._restore(files)

    def _restore(self, files: RunDirectory, tries: int = TRIES) -> Agent:
        checkpoints = Checkpoints(files.checkpoints, self.config.to_plain())
        position = checkpoints.latest()
        if position is None:
            raise PersonaeError(f"{files.root} has no checkpoint yet")
        learned = self._schedule.learned(position.visit)
        self.position = position
        try:
            return restore_agents(self.programs, checkpoints, position, learned)
        except DamagedFileError:
            # A run that goes on drops old checkpoints, maybe while they are read.
            if tries == 1 or checkpoints.latest() == position:
                raise
            return self._restore(files, tries - 1)

    @property
    def learned(self) -> tuple[int, ...]:
        """The tasks that were trained so far, the current one included."""
        visits = self.config.curriculum.visits[: self.position.visit + 1]
        return tuple(dict.fromkeys(visits))

    @property
    def current(self) -> int:
        """The task that is being trained, or was last."""
        return self.config.curriculum.visits[self.position.visit]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of the run's curriculum."""
        return self.config.curriculum.tasks

    def evaluate(
        self, protocol: Evaluation | None = None
    ) -> Float[np.ndarray, "agents tasks episodes"]:
        """Play every task; by default as often and as greedily as while learning."""
        protocol = protocol or self.config.curriculum.evaluation
        with closing(self.programs):
            return self.programs.evaluate(self.agents, protocol)

    def check(self, task: str, seed: int) -> None:
        """Refuse a task or a seed that the run does not have."""
        names, seeds = [task.name for task in self.tasks], self.config.seeds
        if task not in names:
            raise nearest_match_error("task", task, names)
        if seed not in seeds:
            raise nearest_match_error("seed", str(seed), map(str, seeds))

    def film(
        self, task: str, seed: int | None = None, *, greedy: bool | None = None
    ) -> Film:
        """Play one episode of a task with one agent, and draw each step.

        It acts greedily if the run's evaluations do, unless told.
        """
        if greedy is None:
            greedy = self.config.curriculum.evaluation.greedy
        seed = self.config.seeds[0] if seed is None else seed
        self.check(task, seed)
        index = self.config.seeds.index(seed)
        names = [task.name for task in self.tasks]
        return self.programs.film(self.agents, index, names.index(task), greedy)
