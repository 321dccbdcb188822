"""The state of an agent, while it trains and between tasks, and a chunk's results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from personae.learners.contract import Learner
from personae.methods.contract import Method
from personae.rollouts.device import DeviceEnvs
from personae.rollouts.evaluation import EvaluationResult
from personae.rollouts.normalise import Statistics
from personae.rollouts.pipeline import Pipeline
from personae.rollouts.task_data import TaskData
from personae.types import PRNGKey, Space


@dataclass(frozen=True)
class AgentSpec:
    """The parts that all agents of a run share; compiled programs close over them."""

    method: Method
    learner: Learner
    pipeline: Pipeline
    observation_space: Space
    """The space of what networks are shown, before the pipeline."""
    action_space: Space


class TrainState(NamedTuple):
    """The part of an agent that changes while a task is trained."""

    trainable: PyTree[Array]
    learner_state: PyTree[Array]
    # A checkpoint holds these; environments on the host are repeated from actions.
    envs: DeviceEnvs | None
    """Its environments on the device; None if they are on the host."""
    # On the host a rollout may be shorter than an episode.
    measures: Float[Array, " measures"] | None
    """Mean return and success of the episodes that ended last, on the host; None on the
    device."""
    key: PRNGKey
    # With the agent, not with the method: networks are normalised under any method.
    statistics: Statistics
    """Running statistics that normalise inputs."""
    iteration: Int[Array, ""]
    """Iterations of the visit that are over."""

    def progress(self, task: TaskData) -> Float[Array, ""]:
        """Return the share of the visit that is over."""
        return self.iteration / task.iterations


class Agent(NamedTuple):
    """An agent: the method's state changes between tasks and phases only."""

    method_state: PyTree[Array]
    train: TrainState


class BetweenTasks(NamedTuple):
    """An agent between two tasks."""

    method_state: PyTree[Array]
    learner_state: PyTree[Array] | None
    """The learner's state, if it goes on from task to task."""
    statistics: Statistics


class ResumeData(NamedTuple):
    """Arrays outside the agents that a checkpoint needs; None where there are none."""

    envs: Mapping[str, np.ndarray] | None = None
    """They bring environments on the host back."""
    replay: Mapping[str, np.ndarray] | None = None
    """They bring the replay store back."""


class Chunk(NamedTuple):
    """The results of a chunk: the iterations up to an evaluation."""

    metrics: Mapping[str, Float[np.ndarray, "agents iterations"]]
    evaluate: Callable[[], EvaluationResult]
    """Plays the episodes of the evaluation, or returns them if they were played."""
    experience: PyTree[np.ndarray] | None
    """Samples of all iterations, if the method will look back on them."""
    resume: ResumeData
    actors: Mapping[str, list[float]] | None = None
    """Statistics of each actor, if there are several machines."""

    @property
    def training_measure(self) -> Float[np.ndarray, "agents iterations"]:
        """The mean success, or return, of each iteration's episodes."""
        return np.asarray(self.metrics.get("success", self.metrics["return"]))
