"""The visits and the evaluations of a life, planned ones and those so far."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from personae.report.data.description import RunDescription


@dataclass(frozen=True)
class Schedule:
    """The visits and the evaluations of a life, planned ones and those so far."""

    description: RunDescription
    tasks: tuple[str, ...]
    """The names of the curriculum's tasks."""
    trained_tasks: tuple[str, ...]
    """The name of the task of each visit begun."""
    evaluation_steps: Int[np.ndarray, " evaluations"]
    evaluation_visit: Int[np.ndarray, " evaluations"]

    @property
    def num_visits(self) -> int:
        """Visits of the whole curriculum."""
        return len(self.tasks) * self.description.cycles

    @property
    def visits_begun(self) -> int:
        """Visits with at least one training iteration."""
        return len(self.trained_tasks)

    @property
    def visits_ended(self) -> int:
        """Visits that were trained to their end."""
        # The metrics do not say when a visit is over: of a run that goes on, the last
        # visit counts as unfinished even right after its last iteration.
        return self.visits_begun if self.description.finished else self.visits_begun - 1

    @property
    def task_of_visit(self) -> Int[np.ndarray, " visits"]:
        """The index of the task of each visit begun."""
        return np.array([self.tasks.index(task) for task in self.trained_tasks])

    @property
    def num_evaluations(self) -> int:
        """Evaluations in the record."""
        return len(self.evaluation_steps)

    @property
    def visit_ends(self) -> Int[np.ndarray, " visits"]:
        """Environment steps at the last evaluation of each visit."""
        last = np.diff(self.evaluation_visit, append=-1) != 0
        return self.evaluation_steps[last]

    @property
    def ended_early(self) -> bool:
        """Whether some task ended before its planned steps (stop_at, or a callback)."""
        return self.num_evaluations < self.description.planned_evaluations
