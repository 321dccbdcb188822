"""What users may add to a run: to log what they like, to end a task when they like.

class Print(Callback):
def on_evaluation(self, now):
print(now.task, now.steps, now.returns[now.task].mean())
return now.returns[now.task].min() > 475  # True: on to the next task

personae.learn("my.toml", out="runs/mine", callbacks=[Print()])
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float


class EvaluationEvent(NamedTuple):
    """A run at an evaluation."""

    visit: int
    """The visit being trained, from 0."""
    task: str
    """Its task."""
    steps: int
    """Environment steps of one agent so far, in the whole run."""
    returns: Mapping[str, Float[np.ndarray, " agents"]]
    """The mean return of each agent's episodes, or their success, by task."""
    training_return: Float[np.ndarray, " agents"]
    """The same of the last iteration's episodes."""


@runtime_checkable
class Callback(Protocol):
    """Told of what happens in a run; inherit, and what is left out does nothing."""

    def on_evaluation(self, now: EvaluationEvent) -> bool | None:
        """Hear of an evaluation; return True to go on to the next task at once."""
        return None

    def on_task_end(self, now: EvaluationEvent) -> None:
        """Hear that the last evaluation of a task has been made."""
        return


class StopAtTarget(Callback):
    """Ends a task once every agent's evaluation reaches what the task asks for."""

    def __init__(self, wanted: Mapping[str, float]):
        self._wanted = wanted

    def on_evaluation(self, now: EvaluationEvent) -> bool:
        """Compare."""
        enough = self._wanted.get(now.task)
        return enough is not None and bool((now.returns[now.task] >= enough).all())
