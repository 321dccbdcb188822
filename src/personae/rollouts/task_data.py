"""The tasks of a curriculum as data: one compiled program serves all of them."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from personae.curricula import Curriculum


class TaskData(NamedTuple):
    """One task, or several along a leading axis."""

    position: Int[Array, "..."]
    """Index of the task in the curriculum."""
    label: Int[Array, "..."]
    params: PyTree[Array]
    """Params of an environment on the device; None for environments on the host."""
    iterations: Int[Array, "..."]
    """Iterations of one visit."""
    floor: Float[Array, "..."]
    """Training return that is reported before an episode has ended."""
    num_actions: Int[Array, "..."] | None
    """Actions that the task has; None if tasks cannot differ in that."""


class EvalTask(NamedTuple):
    """A task to be evaluated: as it is trained, or in its unseen variant."""

    task: int
    unseen: bool = False


def eval_tasks(curriculum: Curriculum) -> list[EvalTask]:
    """Return all tasks as they are trained, then the unseen variants, if any."""
    tasks = curriculum.tasks
    unseen = [i for i, task in enumerate(tasks) if task.unseen is not None]
    return [*map(EvalTask, range(len(tasks))), *(EvalTask(i, True) for i in unseen)]


class TaskTable:
    """All tasks of a curriculum, stacked; single ones are cut out by their index."""

    def __init__(
        self,
        curriculum: Curriculum,
        params: PyTree[Array],
        num_actions: Sequence[int] | None = None,
    ):
        """Stack the tasks.

        Args:
            curriculum: Gives labels, steps and floors.
            params: Params of environments on the device, `[task, ...]`.
            num_actions: Actions of each task, if they may differ.
        """
        self.visits = curriculum.visits
        self.num_tasks = len(curriculum.tasks)
        self._params = params
        self._labels = jnp.asarray(curriculum.labels, jnp.int32)
        indices = range(self.num_tasks)
        iterations = [curriculum.iterations_of(index) for index in indices]
        self._iterations = jnp.asarray(iterations, jnp.int32)
        self._floors = jnp.asarray([task.floor or 0.0 for task in curriculum.tasks])
        self._num_actions = None
        if num_actions is not None:
            self._num_actions = jnp.asarray(num_actions, jnp.int32)
        # The same arrays each time: programs are called with them at every step.
        self.task = cache(self.select)

    def index_of_visit(self, visit: int) -> int:
        """Return the index of the task of a visit."""
        return self.visits[visit]

    def of_visit(self, visit: int) -> TaskData:
        """Return the task of a visit."""
        return self.task(self.index_of_visit(visit))

    def select(self, index: int | Int[Array, ""]) -> TaskData:
        """Return one task; inside a compiled program the index may be traced."""
        return self._at(index, self._params)

    def _at(self, index: int | Int[Array, "..."], params: PyTree[Array]) -> TaskData:
        sizes = self._num_actions
        return TaskData(
            jnp.asarray(index, jnp.int32),
            self._labels[index],
            jax.tree.map(lambda leaf: leaf[index], params),
            self._iterations[index],
            self._floors[index],
            None if sizes is None else sizes[index],
        )

    @property
    def stacked(self) -> TaskData:
        """All tasks in their order, along a leading axis."""
        # The arrays themselves, without an index: gathers would be computed each time.
        return TaskData(
            jnp.arange(self.num_tasks),
            self._labels,
            self._params,
            self._iterations,
            self._floors,
            self._num_actions,
        )
