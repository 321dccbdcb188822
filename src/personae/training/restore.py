"""Agents of a run restored from its last checkpoint, to be evaluated and filmed."""

from contextlib import closing
from pathlib import Path

from personae.curricula import Evaluation, Task
from personae.errors import PersonaeError, nearest_match_error
from personae.files import DamagedFileError
from personae.rollouts.evaluation import EvaluationResult
from personae.rollouts.film import Film
from personae.runs.checkpoints import Checkpoints, Position
from personae.runs.directory import RunDirectory
from personae.serialise import from_plain
from personae.training.config import RunConfig, method_of
from personae.training.factory import make_training
from personae.training.programs import AgentPrograms
from personae.training.state import Agent

ATTEMPTS = 5
"""Attempts to read a checkpoint while a run replaces it."""


def restore_agents(
    programs: AgentPrograms, checkpoints: Checkpoints, position: Position, learned: int
) -> Agent:
    """Bring a checkpoint's agents, with so many tasks learned, onto the devices."""
    shapes = programs.agent_shapes(position.visit, learned)
    shapes = programs.sharding.host_shapes(shapes)
    loaded = checkpoints.load(position, shapes.method_state, shapes.train)
    return programs.sharding.to_devices(Agent(*loaded))


class RestoredRun:
    """The agents of a run as they were at its last checkpoint."""

    def __init__(self, directory: Path | str):
        self.files = RunDirectory(directory)
        run = self.files.read_run()
        self.config = from_plain(RunConfig, run["config"], "run.json")
        # Before any array exists: JAX fixes its devices at the first one.
        self.config.prepare_backend()
        self.method = method_of(self.config, self.files)
        self.training = make_training(
            self.config.curriculum, self.method, self.config.seeds
        )
        self._schedule = self.config.make_schedule()
        self.position, self.agents = self._restore(ATTEMPTS)

    def _restore(self, attempts: int) -> tuple[Position, Agent]:
        checkpoints = Checkpoints(self.files.checkpoints, self.config.to_plain())
        position = checkpoints.latest()
        if position is None:
            raise PersonaeError(f"{self.files.root} has no checkpoint yet")
        learned = self._schedule.learned(position.visit)
        programs = self.training.programs
        try:
            return position, restore_agents(programs, checkpoints, position, learned)
        except DamagedFileError:
            # A run that goes on drops old checkpoints, maybe while they are read.
            if attempts == 1 or checkpoints.latest() == position:
                raise
            return self._restore(attempts - 1)

    @property
    def learned(self) -> tuple[int, ...]:
        """The tasks that were trained so far, the current one included."""
        visits = self.config.curriculum.visits[: self.position.visit + 1]
        return tuple(dict.fromkeys(visits))

    @property
    def current_task(self) -> int:
        """The task that is being trained, or was last."""
        return self.config.curriculum.visits[self.position.visit]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of the run's curriculum."""
        return self.config.curriculum.tasks

    def evaluate(self, protocol: Evaluation | None = None) -> EvaluationResult:
        """Play every task; by default as often and as greedily as while learning."""
        protocol = protocol or self.config.curriculum.evaluation
        # Environments of evaluations are processes or pools, which must end.
        with closing(self.training):
            return self.training.evaluation.evaluate(self.agents, protocol)

    def check(self, task: str, seed: int) -> None:
        """Raise a UsageError for a task or a seed that the run does not have."""
        names, seeds = [task.name for task in self.tasks], self.config.seeds
        if task not in names:
            raise nearest_match_error("task", task, names)
        if seed not in seeds:
            raise nearest_match_error("seed", str(seed), map(str, seeds))

    def film(
        self, task: str, seed: int | None = None, *, greedy: bool | None = None
    ) -> Film:
        """Play one episode of a task with one agent, and render each step.

        Args:
            task: Name of the task.
            seed: The agent to film; the first if left out.
            greedy: Whether it takes the most likely actions; as in the run's own
                evaluations if left out.
        """
        if greedy is None:
            greedy = self.config.curriculum.evaluation.greedy
        seed = self.config.seeds[0] if seed is None else seed
        self.check(task, seed)
        index = self.config.seeds.index(seed)
        position = [task.name for task in self.tasks].index(task)
        return self.training.evaluation.film(self.agents, index, position, greedy)
