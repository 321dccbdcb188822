"""What an agent's file says of itself: plain data, read strictly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from personae.errors import require
from personae.ids import check_file_name
from personae.policy.architecture import Architecture
from personae.policy.spaces import ActionSpec, ObservationSpec
from personae.serialise import LEFT_OUT

FORMAT = "personae-agent"
VERSION = 1
Stored = Literal["bits", "signed-bits", "shared", "own"]


@dataclass(frozen=True)
class LayerSpec:
    """How the weights of one layer are stored for all tasks."""

    name: str
    shape: tuple[int, ...]
    stored: Stored
    """bits: signs of the backbone, and for each task a bit for each weight that is on;
    signed-bits: and another where it is turned around; shared: numbers for all tasks;
    own: numbers for each."""
    constant: float | None = None
    """The size of every weight, where they are bits."""
    bias: Literal["shared", "own"] | None = None

    def __post_init__(self) -> None:
        fits = len(self.shape) in (2, 4) and all(size >= 1 for size in self.shape)
        require(fits, f"layer {self.name!r} has the shape {list(self.shape)}")
        in_bits = self.stored in ("bits", "signed-bits")
        require(
            in_bits == (self.constant is not None),
            f"layer {self.name!r} is stored as {self.stored} with the constant "
            f"{self.constant}",
        )


@dataclass(frozen=True)
class TaskSpec:
    """One task that the agent has learned."""

    name: str
    env: str
    shown: ObservationSpec
    taken: ActionSpec
    label: int
    options: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] | None = None
    wrappers: tuple[Mapping[str, Any], ...] | None = None
    target: float = field(default=1.0, metadata=LEFT_OUT)
    evaluation: float | None = None
    """What the agent had on it in its run's last evaluation."""
    measure: Literal["return", "success"] = field(default="return", metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        check_file_name("task name", self.name)
        require(self.env.isprintable(), "the id of an environment cannot be printed")


@dataclass(frozen=True)
class Manifest:
    """All that is not an array."""

    format: str
    version: int
    form: Architecture
    layers: tuple[LayerSpec, ...]
    inputs: int
    """Numbers of an observation that the network sees."""
    scale: float
    label_dim: int
    tasks: tuple[TaskSpec, ...]
    curriculum: str
    method: str
    seed: int
    previous_step: bool = field(default=False, metadata=LEFT_OUT)
    """Whether the network sees its last action and reward."""
    normalised: bool = field(default=False, metadata=LEFT_OUT)
    """Whether each task has a mean and a deviation of its own."""
    greedy: bool = field(default=True, metadata=LEFT_OUT)
    """How it acted when it was evaluated."""
    masks: Mapping[str, Any] | None = None
    """From scores to masks: rule and thresholds."""
    fingerprint: str | None = None
    """Of the backbone."""
    scores: bool = field(default=False, metadata=LEFT_OUT)
    """Whether the scores are there, so that a life can go on."""
    versions: Mapping[str, Any] = field(default_factory=dict)
    commit: str | None = None

    def __post_init__(self) -> None:
        require(self.format == FORMAT, f"its format is {self.format!r}, not {FORMAT!r}")
        require(
            self.version == VERSION,
            f"it has version {self.version}; this program reads {VERSION}",
        )
        require(len(self.tasks) > 0, "it has no tasks")
        names = [task.name for task in self.tasks]
        require(len(set(names)) == len(names), f"it has tasks of one name: {names}")
        found, wanted = [layer.name for layer in self.layers], [*self.form.layers]
        require(found == wanted, f"it has the layers {found}, and needs {wanted}")
        for name in ("curriculum", "method"):
            readable = getattr(self, name).isprintable()
            require(readable, f"its {name} cannot be printed")
        require(0 <= self.label_dim < 1 << 20, f"its label_dim is {self.label_dim}")
        for task in self.tasks:
            labelled = self.label_dim == 0 or 0 <= task.label < self.label_dim
            require(labelled, f"task {task.name!r} has the label {task.label}")
            size = task.shown.size
            require(
                size <= self.inputs,
                f"task {task.name!r} shows {size} numbers, of {self.inputs} at most",
            )

    @property
    def beside(self) -> int:
        """How many numbers the last action and reward are, if they are seen."""
        if not self.previous_step:
            return 0
        return self.layer(self.form.heads[0]).shape[0] + 1

    def layer(self, name: str) -> LayerSpec:
        """Return how a layer is stored."""
        return next(layer for layer in self.layers if layer.name == name)
