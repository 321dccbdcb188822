"""An agent out of a file: all its tasks, acting with NumPy alone."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from personae.encoding import REWARD_BOUND
from personae.errors import UsageError, nearest_match_error, require
from personae.policy.architecture import InputSpec, assemble
from personae.policy.compact import bias_of, weight_of
from personae.policy.manifest import Manifest, TaskSpec
from personae.policy.runtime import Generator, TaskPolicy
from personae.policy.tensors import (
    BadAgentError,
    check,
    read_file,
    read_json,
    read_tensors,
)
from personae.policy.verify import check_network
from personae.serialise import from_plain

LONGEST_MESSAGE = 500
"""Letters of what is wrong with a file; it may be the file that wrote them."""


class Agent:
    """What one agent has learned in its life, task by task."""

    def __init__(self, manifest: Manifest, arrays: Mapping[str, np.ndarray]):
        self.manifest = manifest
        self.arrays = arrays
        self._on: dict[str | None, TaskAgent] = {}
        check_network(manifest, arrays)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks it knows."""
        return tuple(task.name for task in self.manifest.tasks)

    def on(self, task: str | None) -> "TaskAgent":
        """Return the agent with its mask for a task on."""
        if task in self._on:
            return self._on[task]
        names = self.tasks
        if task is None:
            raise UsageError(
                f"which task is it? Say task=..., one of: {', '.join(names)}"
            )
        if task not in names:
            raise nearest_match_error("task", str(task), names)
        self._on[task] = TaskAgent(self, names.index(task))
        return self._on[task]

    def act(
        self,
        observation: Any,
        task: str | None = None,
        *,
        sample: bool = False,
        rng: Generator | None = None,
        last_action: Any = None,
        last_reward: Any = 0.0,
    ) -> Any:
        """Return an action for one observation, or actions for a batch of them.

        Args:
            observation: What the task's environment shows, or a batch of that.
            task: The task it belongs to.
            sample: Draw actions as the policy has it, instead of the most likely ones.
            rng: What they are drawn with.
            last_action: What was done before, if the agent sees it
                (`manifest.recall`); left out at the start of an episode.
            last_reward: What that brought; 0 at the start of an episode.
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
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        *,
        task: str | None = None,
    ) -> tuple[Any, Any]:
        """Act in the manner of Stable-Baselines3; `on(task).predict` is its twin."""
        return self.on(task).predict(observation, state, episode_start, deterministic)

    def weights(self, task: int) -> dict[str, np.ndarray]:
        """Return the network's arrays on a task, by place."""
        found = {}
        for layer in self.manifest.layers:
            found[f"{layer.name}.weight"] = weight_of(layer, self.arrays, task)
            bias = bias_of(layer, self.arrays, task)
            if bias is not None:
                found[f"{layer.name}.bias"] = bias
        return found

    def policy(self, task: int) -> TaskPolicy:
        """Return what acts on a task."""
        manifest, spec = self.manifest, self.manifest.tasks[task]
        mean = deviation = None
        if manifest.normalised:
            mean, deviation = (self.arrays[n][task] for n in ("mean", "deviation"))
        label = np.zeros(manifest.label_dim, np.float32)
        label[spec.label : spec.label + 1] = 1
        number = spec.taken.number
        sight = InputSpec(label, manifest.scale, number, mean, deviation)
        return assemble(manifest.form, self.weights(task), sight)


class TaskAgent:
    """An agent on one task."""

    def __init__(self, agent: Agent, task: int):
        self._agent, self._task = agent, task
        self.spec: TaskSpec = agent.manifest.tasks[task]
        self._recalls = agent.manifest.previous_step
        self._inputs = agent.manifest.inputs

    @cached_property
    def policy(self) -> TaskPolicy:
        """What acts."""
        return self._agent.policy(self._task)

    @cached_property
    def _rng(self) -> Generator:
        return np.random.default_rng()

    def act(
        self,
        observation: Any,
        *,
        sample: bool = False,
        rng: Generator | None = None,
        last_action: Any = None,
        last_reward: Any = 0.0,
    ) -> Any:
        """Return an action, or actions for a batch, as `Agent.act` does."""
        flat = self.spec.shown.flat(np.asarray(observation), self._inputs)
        beside = None
        if self._recalls:
            beside = self._beside(flat.shape[:-1], last_action, last_reward)
        chance = (rng or self._rng) if sample else None
        return self.spec.taken.own(self.policy.act(flat, chance, beside))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """Act in the manner of Stable-Baselines3."""
        require(
            not self._recalls,
            "this agent sees its last action and reward, which predict is not given: "
            "use act(..., last_action=, last_reward=)",
        )
        return self.act(observation, sample=not deterministic), state

    def _beside(self, batch: tuple[int, ...], action: Any, reward: Any) -> np.ndarray:
        """Return the last action, one-hot, and the reward."""
        taken, width = self.spec.taken, self._agent.manifest.beside - 1
        seen = np.zeros((*batch, width), np.float32)
        ends = np.cumsum((0, *self._agent.manifest.form.sizes[:-1]))
        # An episode begins, as in training, as if the first action had been taken.
        before = np.broadcast_to(taken.start, (*batch, len(taken.start)))
        if action is not None:
            before = np.asarray(action).reshape(*batch, -1)
        chosen = before - taken.start
        inside = (chosen >= 0) & (chosen < taken.sizes)
        require(bool(inside.all()), f"{action} is no action of {self.spec.name!r}")
        np.put_along_axis(seen, chosen + ends, 1, -1)
        bounded = np.clip(reward, -REWARD_BOUND, REWARD_BOUND)
        last = np.broadcast_to(np.asarray(bounded, np.float32), batch)
        return np.concatenate([seen, last[..., None]], -1)


def load(path: str | Path) -> Agent:
    """Read an agent from a file; a file that is none is refused."""
    return loads(read_file(Path(path)), str(path))


def loads(data: bytes, where: str) -> Agent:
    """Read an agent from a file's contents; `where` is named in errors."""
    try:
        arrays, metadata = read_tensors(data)
        check(isinstance(metadata.get("personae"), str), "it has no manifest")
        plain = read_json(metadata["personae"])
        return Agent(from_plain(Manifest, plain, "manifest"), arrays)
    except (BadAgentError, UsageError) as error:
        said = str(error)[:LONGEST_MESSAGE]
        raise BadAgentError(f"{where} is not a whole agent: {said}") from error
