"""Task and Curriculum: what is learned, in which order, with which preset.

Both are plain data. A curriculum carries the settings that belong to it (network,
learner, methods, evaluation), so that its id alone says what a run does.
"""

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from personae.backbones.build import NetworkOptions
from personae.errors import UsageError, require
from personae.ids import check_file_name, short_name
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
from personae.serialise import LEFT_OUT, from_plain, to_plain, to_toml

LearnerName = Literal["ppo", "impala"]
LEARNERS: tuple[LearnerName, ...] = get_args(LearnerName)


def _at_least_one(data: Any, *names: str) -> None:
    for name in names:
        value = getattr(data, name)
        require(value >= 1, f"{name} must be at least 1, not {value}")


@dataclass(frozen=True)
class Task:
    """One thing to learn: an environment and its options."""

    name: str
    """Short name, unique in its curriculum."""
    env: str
    """Id of an environment: personae/CTGraph-v0, any that Gymnasium knows, such as
    CartPole-v1 or module:Name-v0, or envpool/Name-v0 for EnvPool's."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords for the environment: what makes this task differ from others."""
    label: int | None = None
    """Place of the 1 in the task's one-hot label; by default the task's own index."""
    steps: int | None = None
    """Environment steps per visit; by default the curriculum's `steps_per_task`."""
    target: float = 1.0
    """Return of an optimal policy, against which progress is measured."""
    floor: float | None = None
    """Return that progress is counted from, if not 0; below the target."""
    unseen: Mapping[str, Any] | None = None
    """Keywords that are different where agents are tested on what they never trained
    on: {num_levels = 0} for all levels there are. Evaluations then play both."""
    stop_at: float | None = None
    """Evaluation at which a task is learned well enough: once all agents have it, the
    next task begins. By default a task is trained for all its steps."""
    attributes: Mapping[str, Any] | None = None
    """Attributes of the environment to set: {gravity = 12.0} for another physics."""
    wrappers: tuple[Mapping[str, Any], ...] | None = None
    """Wrappers of Gymnasium, from the inside out: name, and keywords if it has any."""

    def __post_init__(self) -> None:
        check_file_name("task name", self.name)
        if self.steps is not None:
            _at_least_one(self, "steps")
        floor = 0.0 if self.floor is None else self.floor
        require(
            self.target > floor,
            f"task {self.name!r}: progress is measured from floor {floor:g} to the "
            f"target return, which must be larger, not {self.target:g}; where returns "
            "are negative, give a floor below them",
        )


@dataclass(frozen=True)
class Inputs:
    """How observations reach the network."""

    scale: float = 1.0
    """Factor on every entry of an observation."""
    label_dim: int | None = None
    """Length of the one-hot task label appended to the observation; 0 for none. By
    default as many as there are tasks, as the published runs had for every method."""
    fit: Literal["pad"] | None = None
    """What to do if tasks differ in the shape of observations or in the number of
    actions: pad fills the shorter up with zeros, and actions that a task does not have
    are never taken. By default such tasks are refused."""
    previous_step: bool = field(default=False, metadata=LEFT_OUT)
    """Show the network its last action and reward, too; in environments outside JAX."""


@dataclass(frozen=True)
class Evaluation:
    """When and how all tasks of the curriculum are evaluated."""

    interval: int = 10
    """Iterations between evaluations."""
    episodes: int = 10
    """Episodes per task."""
    greedy: bool = True
    """Take the most likely action; otherwise sample."""
    measure: Literal["success"] | None = None
    """success judges episodes by whether they succeed at any step, as environments tell
    (`info["success"]`); by default what they collect is what counts."""

    def __post_init__(self) -> None:
        _at_least_one(self, "interval", "episodes")


@dataclass(frozen=True)
class Normalisers:
    """Running statistics of a task's training, by which inputs are scaled."""

    observations: bool = False
    """Make each entry of an observation zero in the mean, one in deviation."""
    rewards: bool = False
    """Divide rewards by their deviation; returns are reported as they are."""
    clip_rewards: float | None = None
    """Largest reward to learn from, and smallest with a minus; returns are reported as
    they are."""
    shared: bool = False
    """One set of statistics for all tasks, as the published runs on Continual World
    had: earlier tasks then drift. By default each task has its own."""


@dataclass(frozen=True)
class Hosting:
    """How environments that are no JAX programs are stepped."""

    stepping: Literal["sync", "async", "threads", "actors"] = "sync"
    """sync steps one after another, async each in a process of its own. threads acts
    while it learns, from policies that are a little out of date: for IMPALA, with
    environments of EnvPool. actors, for slow environments: one process for each core,
    in which agents act by themselves for whole rollouts and episodes, so that none
    waits for another at each step."""
    actors: int = field(default=2, metadata=LEFT_OUT)
    """Threads that act, each in environments of its own, where stepping is threads."""
    evaluators: int = field(default=1, metadata=LEFT_OUT)
    """Evaluations that may go on at a time beside the training, where stepping is
    threads or actors are on other nodes; each has environments of its own. More are for
    many cores, and a run that is killed loses as many chunks more."""

    def __post_init__(self) -> None:
        _at_least_one(self, "actors", "evaluators")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings of learner, methods and evaluation, for which there are flags."""

    ppo: PPO = PPO()
    impala: IMPALA = field(default=IMPALA(), metadata=LEFT_OUT)
    learner: LearnerName = field(default="ppo", metadata=LEFT_OUT)
    """What learns: proximal policy optimisation, or IMPALA."""
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
        """The learner with its settings."""
        return self.ppo if self.learner == "ppo" else self.impala

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps between two iterations of the learner."""
        return self.chosen_learner.num_envs * self.chosen_learner.rollout_length

    @property
    def method_options(self) -> MethodOptions:
        """The settings of all methods."""
        names = [each.name for each in fields(MethodOptions)]
        return MethodOptions(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class Curriculum(Preset):
    """Tasks in order, and the preset they are learned with."""

    id: str
    """Versioned id, namespace/Name-vN; a change of behaviour is a new version."""
    tasks: tuple[Task, ...]
    description: str = ""
    """One sentence for people."""
    steps_per_task: int = 102_400
    """Environment steps per visit of a task."""
    cycles: int = 1
    """How often the tasks are gone through."""
    inputs: Inputs = Inputs()

    def __post_init__(self) -> None:
        require(len(self.tasks) > 0, f"curriculum {self.id!r} has no tasks")
        _at_least_one(self, "steps_per_task", "cycles")
        names = [task.name for task in self.tasks]
        twice = sorted({name for name in names if names.count(name) > 1})
        require(not twice, f"curriculum {self.id!r}: names of several tasks: {twice}")
        outside = [label for label in self.labels if not self._label_fits(label)]
        require(
            not outside,
            f"curriculum {self.id!r}: labels {outside} do not fit into label_dim "
            f"{self.label_dim}",
        )

        self._check_success()
        tested = {task.name for task in self.tasks if task.unseen is not None}
        require(
            len(tested) in (0, len(self.tasks)),
            f"curriculum {self.id!r}: give unseen to all tasks or to none, not to "
            f"{', '.join(sorted(tested))} only",
        )

    def _check_success(self) -> None:
        """Success lies between 0 and 1, whatever is collected."""
        if self.evaluation.measure is None:
            return
        for task in self.tasks:
            require(
                task.target <= 1 and task.floor is None,
                f"task {task.name!r} is judged by success: its target is at most 1, "
                "and there is no floor",
            )

    def _label_fits(self, label: int) -> bool:
        return self.label_dim == 0 or 0 <= label < self.label_dim

    @property
    def short_name(self) -> str:
        """The id without namespace and version, in lower case."""
        return short_name(self.id)

    @property
    def labels(self) -> tuple[int, ...]:
        """The label of each task."""
        return tuple(
            index if task.label is None else task.label
            for index, task in enumerate(self.tasks)
        )

    @property
    def label_dim(self) -> int:
        """Length of the one-hot task label."""
        given = self.inputs.label_dim
        return len(self.tasks) if given is None else given

    @property
    def visits(self) -> tuple[int, ...]:
        """The index of each task to be trained, in order."""
        return tuple(range(len(self.tasks))) * self.cycles

    def steps_of(self, task: int) -> int:
        """Return the environment steps of one visit to a task."""
        steps = self.tasks[task].steps
        return self.steps_per_task if steps is None else steps

    def iterations_of(self, task: int) -> int:
        """Return the learner's iterations of one visit to a task."""
        return math.ceil(self.steps_of(task) / self.steps_per_iteration)

    def to_plain(self) -> dict[str, Any]:
        """Return the curriculum as plain data."""
        return dict(to_plain(self))

    @classmethod
    def from_plain(cls, data: Mapping[str, Any], where: str) -> "Curriculum":
        """Build a curriculum from plain data; `where` is named in errors."""
        return from_plain(cls, data, where)

    def to_toml(self) -> str:
        """Write the curriculum as TOML."""
        return to_toml(self.to_plain())


def load_curriculum(path: Path) -> Curriculum:
    """Read a curriculum from a TOML or JSON file."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the curriculum {path}: {error}") from error
    return Curriculum.from_plain(data, path.name)
