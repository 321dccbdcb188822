"""IMPALA with actors on a Ray cluster: the learner here, environments anywhere.

Each actor is a Ray actor with environments of its own. With each rollout that it is
asked for it is sent the policy that is the newest then, by its version, through Ray's
object store, and sends rollouts back the same way. No more rollouts are asked for than
can be under way, so that a slow learner is never flooded. Ray starts an actor that died
anew, on any node that has room, and asks it once more for what it owes; meanwhile the
others go on.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from personae.errors import PersonaeError, last_line, require
from personae.rollouts.collector import Collected
from personae.rollouts.ray_worker import Policy, RemoteActor
from personae.rollouts.vector_actors import Players
from personae.training.config import RunConfig

if TYPE_CHECKING:
    from personae.training.host_trainer import BehaviourPolicy, HostPrograms

UNDER_WAY = 2
"""Rollouts that each actor is asked for at a time: one that it makes, one to go on with
when that is done."""
SECONDS_OF_SILENCE = 600
"""After which no actor is taken to be alive; starting one anew takes less."""


class RemotePlayers(Players):
    """Players that act on other nodes while their agents learn here."""

    def __init__(
        self,
        programs: "HostPrograms",
        seeds: tuple[int, ...],
        ray: Any,
        config: RunConfig,
    ):
        super().__init__(programs, seeds)
        require(
            programs.setting.learner.off_policy,
            "what actors on other nodes see is a little out of date, for which only "
            "IMPALA corrects: say --learner impala",
        )
        self._ray = ray
        self.judges_beside = True
        number = programs.hosting.actors
        _say_if_some_have_to_wait(number, ray.cluster_resources().get("CPU", 0))
        kind = ray.remote(
            num_cpus=1,
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy="SPREAD",
        )(RemoteActor)
        plain = config.to_plain()
        self._actors = [kind.remote(plain, i, number) for i in range(number)]
        self._log = [ActorLog() for _ in range(number)]
        self._pending: dict[Any, int] = {}

    def begin(self, visit: int) -> None:
        """Forget what is under way from the visit before."""
        self._forget()
        self._version = self._asked = -1

    def _forget(self) -> None:
        for task in self._pending:
            self._ray.cancel(task)
        self._pending = {}

    def collect(self, acting: "BehaviourPolicy", visit: int) -> Collected:
        """Publish a policy, and return the next rollout of any actor."""
        self._version += 1
        numbers = acting._replace(key=jax.random.key_data(acting.key))
        policy = Policy(self._version, jax.device_get(self.here(numbers)))
        published = self._ray.put(policy)
        for index, actor in enumerate(self._actors):
            while self._owed(index) < UNDER_WAY:
                self._asked += 1
                task = actor.collect.remote(visit, self._asked, published)
                self._pending[task] = index
        return self._receive(visit)

    def _owed(self, index: int) -> int:
        return list(self._pending.values()).count(index)

    def _receive(self, visit: int) -> Collected:
        done, _ = self._ray.wait(list(self._pending), timeout=SECONDS_OF_SILENCE)
        task = self.programs.tasks.name(self.programs.task_of(visit))
        if not done:
            raise PersonaeError(
                f"no actor in task {task!r} has answered for {SECONDS_OF_SILENCE} "
                "seconds; --resume goes on from the last checkpoint"
            )
        index = self._pending.pop(done[0])
        try:
            answer = self._ray.get(done[0])
        except self._ray.exceptions.RayError as error:
            raise PersonaeError(
                f"actor {index} in task {task!r} has failed: {last_line(error)}; "
                "--resume goes on from the last checkpoint"
            ) from error
        collected: Collected = answer.collected
        lag = self._version - answer.version
        frames = collected.rollout.steps.reward.size
        self._log[index].note(frames, answer.seconds, lag, answer.identity)
        return collected._replace(lag=lag)

    def report(self) -> Mapping[str, list[float]]:
        """Return how each actor did since the last time."""
        told = [log.take() for log in self._log]
        return {name: [each[name] for each in told] for name in told[0]}

    def snapshot(self) -> None:
        """Return nothing: what actors do at a time is not repeated."""

    def resume(self, visit: int, saved: Mapping[str, np.ndarray] | None) -> None:
        """Begin the visit's environments anew."""
        self.begin(visit)

    def close(self) -> None:
        """End all actors."""
        self._pending = {}
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        super().close()


def _say_if_some_have_to_wait(actors: int, cores: float) -> None:
    """Warn of a cluster that is too small; it may be one that is about to grow."""
    if actors > cores:
        print(
            f"the cluster has {cores:.0f} cores for {actors} actors, a core each: the "
            "others act when there are more",
            file=sys.stderr,
        )


class ActorLog:
    """How one actor does."""

    def __init__(self) -> None:
        self._identity: int | None = None
        self._replaced = 0
        self._clear()

    def _clear(self) -> None:
        self._frames, self._seconds = 0, 0.0
        self._lags: list[int] = []

    def note(self, frames: int, seconds: float, lag: int, identity: int) -> None:
        """Count a rollout."""
        self._frames += frames
        self._seconds += seconds
        self._lags.append(lag)
        self._replaced += self._identity not in (None, identity)
        self._identity = identity

    def take(self) -> dict[str, float]:
        """Return what it did since the last time, and how often it was replaced."""
        told = {
            "rollouts": float(len(self._lags)),
            "frames_per_second": self._frames / max(self._seconds, 1e-9),
            "policy_lag": float(np.mean(self._lags)) if self._lags else 0.0,
            "replaced": float(self._replaced),
        }
        self._clear()
        return told
