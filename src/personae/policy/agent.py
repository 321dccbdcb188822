"""An agent of a file: all its tasks, with NumPy alone."""

from functools import cached_property
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from personae.encoding import REWARD_BOUND, clip, one_hot
from personae.errors import UsageError, nearest_match_error, require
from personae.migration import migrate_manifest
from personae.policy.architecture import InputSpec, assemble
from personae.policy.compact import bias_of, weight_of
from personae.policy.manifest import Manifest, TaskSpec
from personae.policy.runtime import Generator, TaskPolicy
from personae.policy.spaces import EnvAction
from personae.policy.tensors import (
    Arrays,
    BadAgentError,
    check,
    read_file,
    read_json,
    read_tensors,
)
from personae.policy.verify import check_network
from personae.serialise import from_plain

State = TypeVar("State")
Numbers: TypeAlias = ArrayLike | int | float
"""A number, an array, or anything that NumPy turns into an array."""
MAX_MESSAGE_LENGTH = 500
"""Characters of an error about a file, which may quote what the file says."""


class Agent:
    """All that one agent has learned, task by task."""

    def __init__(self, manifest: Manifest, arrays: Arrays):
        self.manifest = manifest
        self.arrays = arrays
        self._task_agents: dict[str, TaskAgent] = {}
        # Here and not in `loads`, so that nothing acts with unchecked arrays.
        check_network(manifest, arrays)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks that the agent has learned."""
        return tuple(task.name for task in self.manifest.tasks)

    def on(self, task: str | None) -> "TaskAgent":
        """Return the agent with the mask of one task."""
        if task in self._task_agents:
            return self._task_agents[task]
        names = self.tasks
        if task is None:
            raise UsageError(
                f"which task is it? Say task=..., one of: {', '.join(names)}"
            )
        if task not in names:
            raise nearest_match_error("task", str(task), names)
        # Bits become floats once, when a task is first acted on: a product of floats is
        # several times as fast as sums of inputs by the sign of their weight.
        self._task_agents[task] = TaskAgent(self, names.index(task))
        return self._task_agents[task]

    def act(
        self,
        observation: Numbers,
        task: str | None = None,
        *,
        sample: bool = False,
        rng: Generator | None = None,
        last_action: Numbers | None = None,
        last_reward: Numbers = 0.0,
    ) -> EnvAction:
        """Return an action for one observation, or actions for a batch.

        Args:
            observation: An observation of the task's environment, or a batch.
            task: The task's name.
            sample: Draw actions from the policy instead of taking the most likely ones.
            rng: The generator that draws them.
            last_action: The previous action, if the network has it as an input
                (`manifest.previous_step`); left out at the start of an episode.
            last_reward: The reward of that action; 0 at the start of an episode.
        """
        return self.on(task).act(
            observation,
            sample=sample,
            rng=rng,
            last_action=last_action,
            last_reward=last_reward,
        )

    def predict(
        self,
        observation: Numbers,
        state: State | None = None,
        episode_start: Numbers | None = None,
        deterministic: bool = False,
        *,
        task: str | None = None,
    ) -> tuple[EnvAction, State | None]:
        """Act with the signature of Stable-Baselines3, as `on(task).predict` does."""
        # Unlike `act`, it draws actions by default: so does Stable-Baselines3.
        return self.on(task).predict(observation, state, episode_start, deterministic)

    def weights(self, task: int) -> dict[str, np.ndarray]:
        """Return the network's arrays on a task, by name (`trunk.0.weight`)."""
        weights = {}
        for layer in self.manifest.layers:
            weights[f"{layer.name}.weight"] = weight_of(layer, self.arrays, task)
            bias = bias_of(layer, self.arrays, task)
            if bias is not None:
                weights[f"{layer.name}.bias"] = bias
        return weights

    def policy(self, task: int) -> TaskPolicy:
        """Return the policy of a task."""
        manifest, spec = self.manifest, self.manifest.tasks[task]
        mean = deviation = None
        if manifest.normalised:
            mean, deviation = (self.arrays[n][task] for n in ("mean", "deviation"))
        label = one_hot(np.asarray(spec.label), manifest.label_dim)
        inputs = InputSpec(
            label, manifest.scale, spec.action.num_actions, mean, deviation
        )
        return assemble(manifest.architecture, self.weights(task), inputs)


class TaskAgent:
    """An agent on one task."""

    def __init__(self, agent: Agent, task: int):
        self._agent, self._task = agent, task
        self.spec: TaskSpec = agent.manifest.tasks[task]
        self._previous_step = agent.manifest.previous_step
        self._observation_size = agent.manifest.observation_size

    @cached_property
    def policy(self) -> TaskPolicy:
        """The network of the task."""
        return self._agent.policy(self._task)

    # Made when it is first needed: an agent that acts greedily never draws.
    @cached_property
    def _rng(self) -> Generator:
        return np.random.default_rng()

    def act(
        self,
        observation: Numbers,
        *,
        sample: bool = False,
        rng: Generator | None = None,
        last_action: Numbers | None = None,
        last_reward: Numbers = 0.0,
    ) -> EnvAction:
        """Return an action, or actions for a batch, as `Agent.act` does."""
        spec = self.spec
        flat = spec.observation.encode(np.asarray(observation), self._observation_size)
        extra_inputs = None
        if self._previous_step:
            extra_inputs = self._extra_inputs(flat.shape[:-1], last_action, last_reward)
        generator = (rng or self._rng) if sample else None
        return spec.action.decode(self.policy.act(flat, generator, extra_inputs))

    def predict(
        self,
        observation: Numbers,
        state: State | None = None,
        episode_start: Numbers | None = None,
        deterministic: bool = False,
    ) -> tuple[EnvAction, State | None]:
        """Act with the signature of Stable-Baselines3."""
        require(
            not self._previous_step,
            "the inputs of this agent include its last action and reward, which "
            "predict does not have: use act(..., last_action=, last_reward=)",
        )
        return self.act(observation, sample=not deterministic), state

    def _extra_inputs(
        self,
        batch: tuple[int, ...],
        last_action: Numbers | None,
        last_reward: Numbers,
    ) -> np.ndarray:
        """Return the previous action, one-hot, and reward: `[*batch, inputs]`."""
        spec, manifest = self.spec.action, self._agent.manifest
        # An episode begins, as in training, as if the first action had been taken.
        action = np.broadcast_to(spec.start, (*batch, len(spec.start)))
        if last_action is not None:
            action = np.asarray(last_action).reshape(*batch, -1)
        index = action - spec.start
        valid = (index >= 0) & (index < spec.sizes)
        require(
            bool(valid.all()), f"{last_action!r} is no action of {self.spec.name!r}"
        )
        # Each choice has its own range of a row, in which one entry is 1.
        ranges = np.cumsum((0, *manifest.architecture.action_sizes[:-1]))
        choices = one_hot(index + ranges, manifest.num_extra_inputs - 1)
        reward = np.broadcast_to(np.asarray(last_reward, np.float32), batch)[..., None]
        bounded = clip(reward, -REWARD_BOUND, REWARD_BOUND)
        return np.concatenate([choices.sum(-2), bounded], -1)


def load(path: str | Path) -> Agent:
    """Read an agent from a file, or raise an error if the file does not hold one."""
    return loads(read_file(Path(path)), str(path))


def loads(data: bytes, source: str) -> Agent:
    """Read an agent from a file's content; errors name the source."""
    try:
        arrays, metadata = read_tensors(data)
        check(isinstance(metadata.get("personae"), str), "it has no manifest")
        fields = migrate_manifest(read_json(metadata["personae"]))
        return Agent(from_plain(Manifest, fields, "manifest"), arrays)
    except (BadAgentError, UsageError) as error:
        message = str(error)[:MAX_MESSAGE_LENGTH]
        raise BadAgentError(f"{source} is not a whole agent: {message}") from error
