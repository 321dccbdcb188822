"""Callbacks: functions of users that are called at each evaluation.

They can log whatever they like, and end a task::

    class Print(Callback):
        def on_evaluation(self, event):
            print(event.task, event.steps, event.returns[event.task].mean())
            return event.returns[event.task].min() > 475  # True: on to the next task

    personae.learn("my.toml", out="runs/mine", callbacks=[Print()])
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from personae.curricula.schedule import Schedule
from personae.errors import require
from personae.runs.checkpoints import Position
from personae.training.config import RunConfig
from personae.training.state import Chunk


class EvaluationEvent(NamedTuple):
    """A run at an evaluation."""

    visit: int
    """The visit being trained, from 0."""
    task: str
    """Name of the task being trained."""
    steps: int
    """Environment steps of one agent so far, in the whole run."""
    returns: Mapping[str, Float[np.ndarray, " agents"]]
    """The mean return of each agent's episodes, or their success, by task."""
    training_return: Float[np.ndarray, " agents"]
    """The same of the last iteration's training episodes."""


@runtime_checkable
class Callback(Protocol):
    """An interface with defaults: methods that a subclass leaves out do nothing."""

    def on_evaluation(self, event: EvaluationEvent) -> bool | None:
        """Handle an evaluation; return True to go on to the next task at once."""
        return None

    def on_task_end(self, event: EvaluationEvent) -> None:
        """Handle the last evaluation of a task."""
        return


class StopAtTarget(Callback):
    """Ends a task once every agent's evaluation reaches the task's `stop_at`."""

    def __init__(self, targets: Mapping[str, float]):
        self._targets = targets

    def on_evaluation(self, event: EvaluationEvent) -> bool:
        """Return whether every agent has reached the target."""
        target = self._targets.get(event.task)
        if target is None:
            return False
        return bool((event.returns[event.task] >= target).all())


class CallbackList:
    """All callbacks of a run; false if there are none."""

    def __init__(
        self, config: RunConfig, schedule: Schedule, callbacks: Sequence[Callback]
    ):
        self._config, self._schedule = config, schedule
        self._num_phases = len(config.make_method().traits.phases)
        tasks = config.curriculum.tasks
        targets = {t.name: t.stop_at for t in tasks if t.stop_at is not None}
        stops = [StopAtTarget(targets)] if targets else []
        self._callbacks: list[Callback] = [*stops, *callbacks]

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def on_evaluation(self, position: Position, chunk: Chunk) -> bool:
        """Tell all callbacks of a chunk's evaluation; return whether one ends the task.

        Raises:
            UsageError: One ends a task that the method trains in several phases.
        """
        schedule, result = self._schedule, chunk.evaluate()
        names = [task.name for task in self._config.curriculum.tasks]
        event = EvaluationEvent(
            position.visit,
            schedule.task(position.visit),
            position.iteration * schedule.steps_per_iteration,
            dict(zip(names, result.means.T, strict=True)),
            chunk.training_measure[:, -1],
        )
        # All are asked, even if one has ended the task already: they may log as well.
        ends = [bool(callback.on_evaluation(event)) for callback in self._callbacks]
        require(
            not any(ends) or self._num_phases == 1,
            f"a callback ends task {event.task!r}, but {self._config.method} trains in "
            f"{self._num_phases} phases, none of which can be left out",
        )
        if any(ends) or position.chunk == len(schedule.chunks(position.visit)):
            for callback in self._callbacks:
                callback.on_task_end(event)
        return any(ends)
