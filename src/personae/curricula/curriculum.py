"""The curriculum: tasks in order, with the preset they are learned with.

It is plain data, and carries the settings that belong to it (network, learner, methods,
evaluation), so that its id alone determines a run.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from personae.backbones.build import NetworkOptions
from personae.curricula.options import Evaluation, Hosting, Inputs, Normalisers
from personae.curricula.task import Task
from personae.errors import require, require_at_least_one
from personae.ids import short_name
from personae.learners import IMPALA, PPO, Learner
from personae.methods import (
    CLEAROptions,
    EWCOptions,
    L2Options,
    MaskOptions,
    MethodOptions,
    OnlineEWCOptions,
    PackNetOptions,
    ProgressCompressOptions,
)
from personae.serialise import LEFT_OUT, PlainData, from_plain, to_plain, to_toml

LearnerName = Literal["ppo", "impala"]
LEARNERS: tuple[LearnerName, ...] = get_args(LearnerName)
"""The names of all learners."""


# Keyword-only, so that subclasses can have fields without a default.
@dataclass(frozen=True, kw_only=True)
class Preset:
    """The settings of learners, methods and evaluation; each is a group of flags."""

    ppo: PPO = PPO()
    impala: IMPALA = field(default=IMPALA(), metadata=LEFT_OUT)
    learner: LearnerName = field(default="ppo", metadata=LEFT_OUT)
    """Learning algorithm: proximal policy optimisation, or IMPALA."""
    masks: MaskOptions = MaskOptions()
    ewc: EWCOptions = EWCOptions()
    l2: L2Options = L2Options()
    packnet: PackNetOptions = PackNetOptions()
    online_ewc: OnlineEWCOptions = field(default=OnlineEWCOptions(), metadata=LEFT_OUT)
    progress_compress: ProgressCompressOptions = field(
        default=ProgressCompressOptions(), metadata=LEFT_OUT
    )
    clear: CLEAROptions = field(default=CLEAROptions(), metadata=LEFT_OUT)
    network: NetworkOptions = NetworkOptions()
    evaluation: Evaluation = Evaluation()
    normalise: Normalisers = field(default=Normalisers(), metadata=LEFT_OUT)
    hosting: Hosting = field(default=Hosting(), metadata=LEFT_OUT)

    @property
    def chosen_learner(self) -> Learner:
        """The learner that is chosen, with its settings."""
        return self.ppo if self.learner == "ppo" else self.impala

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one agent in one iteration of the learner."""
        return self.chosen_learner.num_envs * self.chosen_learner.rollout_length

    @property
    def method_options(self) -> MethodOptions:
        """The settings of all methods."""
        names = [option.name for option in fields(MethodOptions)]
        return MethodOptions(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class Curriculum(Preset):
    """Tasks in order, and the preset they are learned with.

    Example: Curriculum("me/Mine-v1", (Task("cart", "CartPole-v1", target=500.0),))
    """

    id: str
    """Versioned id, namespace/Name-vN; a change of behaviour is a new version."""
    tasks: tuple[Task, ...]
    """The tasks in their order; their names differ."""
    description: str = ""
    """One sentence for people."""
    steps_per_task: int = 102_400
    """Environment steps per visit of a task."""
    cycles: int = 1
    """Number of times that all tasks are visited in their order."""
    inputs: Inputs = Inputs()
    """The form in which observations reach the network."""

    def __post_init__(self) -> None:
        require(len(self.tasks) > 0, f"curriculum {self.id!r} has no tasks")
        require_at_least_one(self, "steps_per_task", "cycles")
        # Films, models and other files of a task are named after it.
        names = [task.name for task in self.tasks]
        repeated = sorted({name for name in names if names.count(name) > 1})
        require(
            not repeated, f"curriculum {self.id!r}: names of several tasks: {repeated}"
        )
        outside = [label for label in self.labels if not self._label_fits(label)]
        require(
            not outside,
            f"curriculum {self.id!r}: labels {outside} do not fit into label_dim "
            f"{self.label_dim}",
        )
        self._check_success()
        # Evaluations return one array of all tasks, so all need the unseen part.
        tested = {task.name for task in self.tasks if task.unseen is not None}
        require(
            len(tested) in (0, len(self.tasks)),
            f"curriculum {self.id!r}: give unseen to all tasks or to none, not to "
            f"{', '.join(sorted(tested))} only",
        )

    def _check_success(self) -> None:
        """Raise an error if a task's target is out of the range of success rates."""
        if self.evaluation.measure is None:
            return
        for task in self.tasks:
            require(
                task.target <= 1 and task.floor is None,
                f"task {task.name!r} is measured by success: its target is at most "
                "1, and there is no floor",
            )

    def _label_fits(self, label: int) -> bool:
        return self.label_dim == 0 or 0 <= label < self.label_dim

    @property
    def short_name(self) -> str:
        """The id without namespace and version, in lower case."""
        return short_name(self.id)

    @property
    def labels(self) -> tuple[int, ...]:
        """The position of the 1 in each task's one-hot label."""
        return tuple(
            index if task.label is None else task.label
            for index, task in enumerate(self.tasks)
        )

    @property
    def label_dim(self) -> int:
        """Length of the one-hot task label."""
        length = self.inputs.label_dim
        return len(self.tasks) if length is None else length

    @property
    def visits(self) -> tuple[int, ...]:
        """The index of the task of each visit, in order."""
        return tuple(range(len(self.tasks))) * self.cycles

    def steps_of(self, task: int) -> int:
        """Return the environment steps of one visit to a task."""
        steps = self.tasks[task].steps
        return self.steps_per_task if steps is None else steps

    def iterations_of(self, task: int) -> int:
        """Return the learner's iterations of one visit to a task."""
        # Rounded up, so that a visit has at least the steps that are asked for.
        return math.ceil(self.steps_of(task) / self.steps_per_iteration)

    def to_plain(self) -> PlainData:
        """Return the curriculum as plain data."""
        return dict(to_plain(self))

    @classmethod
    def from_plain(cls, data: Mapping[str, object], source: str) -> "Curriculum":
        """Build a curriculum from plain data; errors name the source."""
        return from_plain(cls, data, source)

    def to_toml(self) -> str:
        """Return the curriculum as the text of a TOML file."""
        data = self.to_plain()
        # The default learner is left out of plain data, but a file with a table of
        # another learner must name the one that is meant.
        if any(name in data for name in LEARNERS if name != self.learner):
            data = {"learner": self.learner} | data
        return to_toml(data)
