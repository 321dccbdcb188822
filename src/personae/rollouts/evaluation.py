"""The result of an evaluation, and the measure of its episodes.

Episodes are counted by `envs/episode_stats.py` on the host and by `device.py` on the
device; both give their return and, where environments report it, their success.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from personae.errors import PersonaeError

Episodes = Float[np.ndarray, "agents tasks episodes"]
Measure = Literal["success"] | None
"""Episodes are measured by success, or by their return if it is None."""
LONGEST_EPISODE = 1_000_000
"""Steps after which an evaluation on the host gives up."""


class EvaluationResult(NamedTuple):
    """Episodes of all agents on all tasks."""

    returns: Episodes
    success: Episodes | None
    """Success of each episode, 1 or 0; None unless success is the measure."""
    unseen: Episodes | None
    """The measure on the tasks' unseen variants, if they have any."""

    @property
    def measured(self) -> Episodes:
        """The measure of each episode on the tasks as they are trained."""
        return self.returns if self.success is None else self.success

    @property
    def means(self) -> Float[np.ndarray, "agents tasks"]:
        """The mean of each task's episodes."""
        return np.asarray(self.measured).mean(-1)


def split_unseen(
    returns: Episodes, success: Episodes | None, num_tasks: int
) -> EvaluationResult:
    """Return the result of evaluating the tasks and, after them, unseen variants."""
    # Unseen variants follow the tasks, in the order of `eval_tasks`.
    measured = returns if success is None else success
    unseen = measured[:, num_tasks:] if measured.shape[1] > num_tasks else None
    trained = None if success is None else success[:, :num_tasks]
    return EvaluationResult(returns[:, :num_tasks], trained, unseen)


def missing_success(task: str) -> PersonaeError:
    """Return the error of an episode that ended without reporting success."""
    return PersonaeError(
        f"task {task!r} is measured by success, but an episode ended without reporting "
        'it: info["success"], at one of its steps at least'
    )


def endless_episode(task: str) -> PersonaeError:
    """Return the error of an episode that exceeds the limit of evaluations."""
    return PersonaeError(
        f"an episode of task {task!r} did not end within {LONGEST_EPISODE} steps; give "
        "the environment a time limit (max_episode_steps)"
    )
