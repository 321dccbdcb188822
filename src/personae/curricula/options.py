"""Options of a curriculum: inputs, evaluation, normalisers and environment hosting.

Each dataclass is a table of a curriculum's TOML file. All but `Inputs` are also flags
of the command line, so the strings below the fields are its help texts.
"""

from dataclasses import dataclass, field
from typing import Literal

from personae.errors import require_at_least_one
from personae.serialise import LEFT_OUT


# Fields that were added later are marked LEFT_OUT: the configuration of older runs must
# not change, or they could not be resumed.
@dataclass(frozen=True)
class Inputs:
    """The form in which observations reach the network."""

    scale: float = 1.0
    """Factor on every entry of an observation."""
    label_dim: int | None = None
    """Length of the one-hot task label that is appended to the observation; 0 for none.
    By default it is the number of tasks, as in the published runs of every method."""
    fit: Literal["pad"] | None = None
    """Treatment of tasks that differ in the shape of observations or in the number of
    actions: pad fills the shorter ones with zeros, and actions that a task does not
    have are never taken. By default such tasks are refused."""
    previous_step: bool = field(default=False, metadata=LEFT_OUT)
    """Give the network its last action and reward, too."""


# The defaults are those of the published runs on the CT-graph.
@dataclass(frozen=True)
class Evaluation:
    """The times and the manner in which all tasks are evaluated."""

    interval: int = 10
    """Iterations between evaluations."""
    episodes: int = 10
    """Episodes per task."""
    greedy: bool = True
    """Whether evaluations take the most likely action. Otherwise they sample."""
    measure: Literal["success"] | None = None
    """Measure of an episode: success counts whether it succeeds at any step, as the
    environment reports it (`info["success"]`). By default the return counts."""

    def __post_init__(self) -> None:
        require_at_least_one(self, "interval", "episodes")


@dataclass(frozen=True)
class Normalisers:
    """Running statistics of a task's training, by which inputs are scaled."""

    observations: bool = False
    """Give each entry of an observation zero mean and unit standard deviation."""
    rewards: bool = False
    """Divide rewards by their standard deviation. Reported returns are not
    normalised."""
    clip_rewards: float | None = None
    """Bound on the size of the rewards that are learned from. Reported returns are not
    clipped."""
    shared: bool = False
    """Share one set of statistics among all tasks, as in the published runs on
    Continual World. The inputs of tasks learned before then drift. By default each task
    has its own statistics."""


@dataclass(frozen=True)
class Hosting:
    """The manner of stepping environments that are not JAX programs."""

    stepping: Literal["sync", "async", "threads", "actors"] = "sync"
    """sync steps one environment after another; async gives each a process of its own.
    threads acts during the learning, with policies that are slightly out of date; it
    is for IMPALA in environments of EnvPool. actors is for slow environments: one
    process per core, in which agents act alone for whole rollouts and episodes, so
    that no agent waits for another at each step."""
    actors: int = field(default=2, metadata=LEFT_OUT)
    """Number of acting threads, each with environments of its own, if stepping is
    threads."""
    evaluators: int = field(default=1, metadata=LEFT_OUT)
    """Number of evaluations that may run at a time beside the training, if stepping is
    threads or if actors are on other nodes. Each has environments of its own. More than
    one needs many cores, and a killed run then loses as many chunks more."""

    def __post_init__(self) -> None:
        require_at_least_one(self, "actors", "evaluators")
