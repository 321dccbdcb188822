"""A task: one environment with its options, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from personae.errors import require, require_at_least_one
from personae.ids import check_file_name

Keywords: TypeAlias = Mapping[str, Any]
"""Keyword arguments of an environment or a wrapper, as TOML or JSON holds them."""


@dataclass(frozen=True)
class Task:
    """One task of a curriculum: an environment and its options.

    Example: Task("d3-000", "personae/CTGraph-v0", {"depth": 3, "goal": [0, 0, 0]})
    """

    name: str
    """Short name, unique in its curriculum. It is also used in file names."""
    env: str
    """Id of an environment: personae/CTGraph-v0, any that Gymnasium knows, such as
    CartPole-v1 or module:Name-v0, or envpool/Name-v0 for EnvPool's."""
    options: Keywords = field(default_factory=dict)
    """Keyword arguments of the environment, by which tasks differ."""
    label: int | None = None
    """Position of the 1 in the one-hot task label. By default it is the task's own
    index."""
    steps: int | None = None
    """Environment steps per visit. By default they are the curriculum's
    `steps_per_task`."""
    target: float = 1.0
    """Return of an optimal policy, against which progress is measured."""
    floor: float | None = None
    """Return from which progress is counted, if it is not 0. It lies below the
    target."""
    unseen: Keywords | None = None
    """Keyword arguments that differ in the test on environments the agent was never
    trained on: {num_levels = 0} means all levels there are. Evaluations are
    then made on both."""
    stop_at: float | None = None
    """Evaluation at which the task is learned well enough: the next task begins as soon
    as all agents reach it. By default a task is trained for all its steps."""
    attributes: Keywords | None = None
    """Attributes of the environment to set: {gravity = 12.0} changes its physics."""
    wrappers: tuple[Keywords, ...] | None = None
    """Wrappers of Gymnasium, from the inside out. Each has a name, and keyword
    arguments if it takes any."""

    def __post_init__(self) -> None:
        check_file_name("task name", self.name)
        if self.steps is not None:
            require_at_least_one(self, "steps")
        floor = 0.0 if self.floor is None else self.floor
        require(
            self.target > floor,
            f"task {self.name!r}: progress is measured from floor {floor:g} to the "
            f"target return, which must be larger, not {self.target:g}; where returns "
            "are negative, give a floor below them",
        )
