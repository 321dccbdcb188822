"""The manifest of an agent's file: plain data, which is read strictly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from personae.errors import require
from personae.ids import check_file_name
from personae.policy.architecture import Architecture
from personae.policy.spaces import ActionSpec, ObservationSpec
from personae.serialise import LEFT_OUT

FORMAT = "personae-agent"
VERSION = 2
"""Files of version 1 are read through `personae.migration`."""
MAX_LABEL_DIM = 1 << 20
"""A label takes memory on each task, and a file of a stranger names its length."""
Storage = Literal["bits", "signed-bits", "shared", "per-task"]


@dataclass(frozen=True)
class LayerSpec:
    """The storage of one layer's weights on all tasks."""

    name: str
    shape: tuple[int, ...]
    storage: Storage
    """bits: the signs of the backbone, and for each task one bit for each weight, which
    says whether it is on; signed-bits: also one bit that says whether its sign is
    inverted; shared: one array of numbers for all tasks; per-task: one for each."""
    constant: float | None = None
    """The size of every weight, where they are bits."""
    bias: Literal["shared", "per-task"] | None = None

    def __post_init__(self) -> None:
        # Linear layers have two dimensions, convolutions four.
        valid = len(self.shape) in (2, 4) and all(size >= 1 for size in self.shape)
        require(valid, f"layer {self.name!r} has the shape {list(self.shape)}")
        in_bits = self.storage in ("bits", "signed-bits")
        require(
            in_bits == (self.constant is not None),
            f"layer {self.name!r} is stored as {self.storage} with the constant "
            f"{self.constant}",
        )


@dataclass(frozen=True)
class TaskSpec:
    """One task that the agent has learned."""

    name: str
    env: str
    observation: ObservationSpec
    action: ActionSpec
    label: int
    options: Mapping[str, object] = field(default_factory=dict)
    attributes: Mapping[str, object] | None = None
    wrappers: tuple[Mapping[str, object], ...] | None = None
    target: float = field(default=1.0, metadata=LEFT_OUT)
    evaluation: float | None = None
    """The agent's result in the last evaluation of its run."""
    measure: Literal["return", "success"] = field(default="return", metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        # Models and films of a task are files with its name.
        check_file_name("task name", self.name)
        require(self.env.isprintable(), "the id of an environment cannot be printed")


@dataclass(frozen=True)
class Manifest:
    """All content of a file that is not an array."""

    format: str
    version: int
    architecture: Architecture
    layers: tuple[LayerSpec, ...]
    observation_size: int
    """Numbers of an observation that the network has as inputs; tasks with fewer are
    padded."""
    scale: float
    label_dim: int
    tasks: tuple[TaskSpec, ...]
    curriculum: str
    method: str
    seed: int
    previous_step: bool = field(default=False, metadata=LEFT_OUT)
    """Whether the network has its previous action and reward as inputs."""
    normalised: bool = field(default=False, metadata=LEFT_OUT)
    """Whether observations of each task are normalised by a mean and a deviation."""
    greedy: bool = field(default=True, metadata=LEFT_OUT)
    """Whether the evaluations of the agent's run were greedy."""
    masks: Mapping[str, object] | None = None
    """The options that make masks of scores: rule and thresholds."""
    fingerprint: str | None = None
    """A digest of the backbone."""
    scores: bool = field(default=False, metadata=LEFT_OUT)
    """Whether the file has scores and backbone, for a warm start."""
    versions: Mapping[str, object] = field(default_factory=dict)
    commit: str | None = None

    def __post_init__(self) -> None:
        require(self.format == FORMAT, f"its format is {self.format!r}, not {FORMAT!r}")
        require(
            self.version == VERSION,
            f"it has version {self.version}; this program reads 1 to {VERSION}",
        )
        layers, needed = [layer.name for layer in self.layers], self.architecture.layers
        require(
            layers == list(needed), f"it has the layers {layers}, and needs {[*needed]}"
        )
        # Model cards and tables print these.
        for name in ("curriculum", "method"):
            printable = getattr(self, name).isprintable()
            require(printable, f"its {name} cannot be printed")
        require(
            0 <= self.label_dim < MAX_LABEL_DIM, f"its label_dim is {self.label_dim}"
        )
        self._check_tasks()

    def _check_tasks(self) -> None:
        """Raise an error unless the network can act on all tasks."""
        require(len(self.tasks) > 0, "it has no tasks")
        names = [task.name for task in self.tasks]
        require(len(set(names)) == len(names), f"it has tasks of one name: {names}")
        for task in self.tasks:
            # Without labels in the inputs, a task's label has no meaning.
            valid_label = self.label_dim == 0 or 0 <= task.label < self.label_dim
            require(valid_label, f"task {task.name!r} has the label {task.label}")
            size = task.observation.size
            require(
                size <= self.observation_size,
                f"observations of task {task.name!r} have {size} numbers, of "
                f"{self.observation_size} at most",
            )

    @property
    def num_extra_inputs(self) -> int:
        """Number of inputs for the previous action and reward, if there are any."""
        if not self.previous_step:
            return 0
        # One-hot among all actions of the network, as a task may have fewer.
        num_actions = self.layer(self.architecture.heads[0]).shape[0]
        return num_actions + 1

    def layer(self, name: str) -> LayerSpec:
        """Return the specification of a layer."""
        return next(layer for layer in self.layers if layer.name == name)
