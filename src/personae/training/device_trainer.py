"""Training on JAX environments by methods that remember: iteration by iteration.

Memories are on disk, so a chunk is not one program here: each iteration is one.
"""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from personae.training import update as device
from personae.training.programs import Programs
from personae.training.update import Agent, ChunkResult, TrainState


class RehearsingPrograms(Programs):
    """What a run calls, for methods that remember."""

    def __init__(self, curriculum: Any, method: Any, seeds: Any, devices: Any = None):
        super().__init__(curriculum, method, seeds, devices)
        self._judge = self.lanes.compile(self._judge_agent)

    def _judge_agent(
        self, agent: Agent, _: Any
    ) -> tuple[TrainState, Float[Array, "tasks episodes"]]:
        return device.judge(self.setting, agent, self.params, self.labels)

    def chunk(
        self, agents: Agent, visit: int, iterations: int
    ) -> tuple[Agent, ChunkResult]:
        """Train all agents for some iterations and evaluate them."""
        assert self.memory is not None
        task, measured = self.task(visit), []
        for _ in range(iterations):
            live, metrics, kept = self._iterate((agents, self._recalled()), task)
            self.memory.add(kept)
            measured.append(metrics)
            agents = Agent(agents.method, live)
        live, returns = self._judge(agents, ())
        fetched = self.lanes.fetch(measured)
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves, 1), *fetched)
        evaluation = self.lanes.fetch(returns)
        result = ChunkResult(stacked, evaluation, None, self.memory.snapshot())
        return Agent(agents.method, live), result

    def _prepare_training(
        self, agents: Agent, visit: int, iterations: Iterable[int]
    ) -> None:
        recalled = self._recalled_shapes(agents, visit)
        self._iterate.prepare((agents, recalled), self.task(visit))
        self._judge.prepare(agents, ())
