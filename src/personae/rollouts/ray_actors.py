"""IMPALA with actors on a Ray cluster: the learner here, environments anywhere.

Each actor is a Ray actor with environments of its own. Each request for a rollout
carries the newest policy and its version, through Ray's object store; rollouts come
back the same way. Each actor has a limited number of open requests, so that a slow
learner is never flooded. Ray restarts an actor that died, on any node that has room,
and repeats its open requests; meanwhile the others go on.
"""

import sys
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from personae.errors import PersonaeError, last_line
from personae.rollouts.contract import BehaviourPolicy, CollectedRollout, EnvSnapshot
from personae.rollouts.host_context import HostContext
from personae.rollouts.ray_worker import RayWorker, SentPolicy
from personae.serialise import PlainData

MAX_IN_FLIGHT = 2
"""Rollouts that each actor is asked for at a time: one in progress, and one to go on
with."""
SILENCE_LIMIT = 600
"""Seconds without a rollout after which no actor counts as alive; starting one anew
takes less."""


class RayActors:
    """Actors on other nodes, which act while agents learn here."""

    def __init__(self, context: HostContext, ray: Any, curriculum: PlainData):
        """Start the actors.

        Args:
            context: Everything that acting depends on.
            ray: The module, connected with a cluster.
            curriculum: The curriculum as plain data, from which nodes make their own
                context.
        """
        self._context, self._ray = context, ray
        number = context.hosting.actors
        _warn_of_few_cores(number, ray.cluster_resources().get("CPU", 0))
        kind = ray.remote(
            num_cpus=1,
            # Nodes of a cluster come and go; the run outlives them.
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy="SPREAD",
        )(RayWorker)
        self._actors = [
            kind.remote(curriculum, context.seeds, index, number)
            for index in range(number)
        ]
        self._log = [ActorLog() for _ in range(number)]
        self._pending: dict[Any, int] = {}
        self._version = self._draws = -1

    @property
    def acts_during_training(self) -> bool:
        """Nodes act while agents learn."""
        return True

    def begin(self, visit: int) -> None:
        """Cancel the open rollouts of the visit before."""
        for task in self._pending:
            self._ray.cancel(task)
        self._pending = {}
        self._version = self._draws = -1

    def collect(self, policy: BehaviourPolicy, visit: int) -> CollectedRollout:
        """Publish a policy, and return the next rollout of any actor."""
        self._version += 1
        # Typed keys cannot be pickled; their numbers can.
        numbers = policy._replace(key=jax.random.key_data(policy.key))
        sent = SentPolicy(self._version, jax.device_get(numbers))
        # Put once for all actors: Ray then sends it to each node a single time.
        published = self._ray.put(sent)
        for index, actor in enumerate(self._actors):
            while self._num_open(index) < MAX_IN_FLIGHT:
                self._draws += 1
                task = actor.collect.remote(visit, self._draws, published)
                self._pending[task] = index
        return self._receive(visit)

    def _num_open(self, index: int) -> int:
        return list(self._pending.values()).count(index)

    def _receive(self, visit: int) -> CollectedRollout:
        ready, _ = self._ray.wait(list(self._pending), timeout=SILENCE_LIMIT)
        name = self._context.task_name(visit)
        if not ready:
            raise PersonaeError(
                f"no actor in task {name!r} has answered for {SILENCE_LIMIT} seconds; "
                "--resume goes on from the last checkpoint"
            )
        index = self._pending.pop(ready[0])
        try:
            answer = self._ray.get(ready[0])
        except self._ray.exceptions.RayError as error:
            raise PersonaeError(
                f"actor {index} in task {name!r} has failed: {last_line(error)}; "
                "--resume goes on from the last checkpoint"
            ) from error
        collected: CollectedRollout = answer.collected
        lag = self._version - answer.version
        frames = collected.rollout.steps.reward.size
        self._log[index].add(frames, answer.seconds, lag, answer.identity)
        return collected._replace(policy_lag=lag)

    def report(self) -> Mapping[str, list[float]]:
        """Return statistics of each actor since the last call."""
        entries = [log.take() for log in self._log]
        return {name: [entry[name] for entry in entries] for name in entries[0]}

    def snapshot(self) -> EnvSnapshot | None:
        """Return nothing: the timing of actors cannot be repeated."""
        return None

    def resume(self, visit: int, snapshot: EnvSnapshot | None) -> None:
        """Begin the visit's environments anew."""
        self.begin(visit)

    def close(self) -> None:
        """End all actors."""
        self._pending = {}
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []


def _warn_of_few_cores(actors: int, cores: float) -> None:
    """Warn of a cluster that is too small; it may be one that is about to grow."""
    if actors > cores:
        print(
            f"the cluster has {cores:.0f} cores for {actors} actors, a core each: the "
            "others act when there are more",
            file=sys.stderr,
        )


class ActorLog:
    """Statistics of one actor."""

    def __init__(self) -> None:
        self._identity: int | None = None
        self._replaced = 0
        self._frames, self._seconds = 0, 0.0
        self._lags: list[int] = []

    def add(self, frames: int, seconds: float, lag: int, identity: int) -> None:
        """Count a rollout."""
        self._frames += frames
        self._seconds += seconds
        self._lags.append(lag)
        # A restarted actor draws a new identity.
        self._replaced += self._identity not in (None, identity)
        self._identity = identity

    def take(self) -> dict[str, float]:
        """Return the statistics since the last call, and the number of replacements."""
        entry = {
            "rollouts": float(len(self._lags)),
            "frames_per_second": self._frames / max(self._seconds, 1e-9),
            "policy_lag": float(np.mean(self._lags)) if self._lags else 0.0,
            "replaced": float(self._replaced),
        }
        self._frames, self._seconds, self._lags = 0, 0.0, []
        return entry
