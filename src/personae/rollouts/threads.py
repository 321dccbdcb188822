"""Acting and learning at the same time: threads act, and hand over what they have.

Each thread has environments of its own and acts with the policy that was published
last. The learner takes rollouts as they come, so they are a few updates old, for which
IMPALA corrects. A thread goes on when its rollout has been taken, so that no more of
them wait than there are threads: they would only grow older. Environments and compiled
programs run outside Python's lock.
"""

import queue
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from personae.errors import PersonaeError, UsageError
from personae.rollouts.collector import Collected, Stage
from personae.rollouts.vector_actors import Players

if TYPE_CHECKING:
    from personae.training.host_trainer import BehaviourPolicy, HostPrograms

SECONDS_OF_SILENCE = 600
"""After which environments are taken to hang; compiling takes less."""
PATIENCE = 0.2
"""Seconds after which a thread that waits looks whether it is still wanted."""
TURN = 5e-4
"""Seconds after which Python hands its lock on. Threads that act need it for moments
only; at Python's own 5 ms one that traces a program slows them to a twentieth."""


_new_keys = jax.jit(jax.vmap(jax.random.fold_in, (0, None)))


class Published(NamedTuple):
    """A policy, and how many were published before it."""

    version: int
    acting: "BehaviourPolicy"


class Offer(NamedTuple):
    """What a thread has for the learner."""

    what: Collected | Exception
    taken: threading.Event


class Actor(threading.Thread):
    """Acts in environments of its own until it is told to stop."""

    def __init__(self, players: "ThreadedPlayers", visit: int, number: int):
        super().__init__(name=f"actor-{number}", daemon=True)
        self._players, self._visit, self._number = players, visit, number
        self._offers = players.offers
        self.ending = threading.Event()

    def run(self) -> None:
        """Act, rollout after rollout; what goes wrong is handed over as well."""
        try:
            stage = Stage(self._players, self._visit, self._number)
            try:
                stage.start()
                self._act(stage)
            finally:
                stage.close()
        except Exception as error:  # or it would be lost with the thread
            self._hand_over(error)

    def _act(self, stage: Stage) -> None:
        rollouts = 0
        while not self.ending.is_set():
            version, acting = self._players.published
            draw = rollouts * self._players.num_actors + self._number
            keys = _new_keys(acting.key, draw)
            collected = stage.collect(acting._replace(key=keys))
            self._hand_over(collected._replace(lag=version))
            rollouts += 1

    def _hand_over(self, what: Collected | Exception) -> None:
        """Return when it has been taken."""
        offer = Offer(what, threading.Event())
        self._offers.put(offer)
        while not (self.ending.is_set() or offer.taken.wait(PATIENCE)):
            pass


class ThreadedPlayers(Players):
    """Players that act while their agents learn."""

    def __init__(self, programs: "HostPrograms", seeds: tuple[int, ...]):
        super().__init__(programs, seeds)
        self.num_actors = programs.hosting.actors
        self.offers: queue.SimpleQueue[Offer] = queue.SimpleQueue()
        self._actors: list[Actor] = []
        self.judges_beside = True

    def begin(self, visit: int) -> None:
        """Forget the visit before; threads start when there is a policy."""
        self._stop()
        self._version = -1

    def collect(self, acting: "BehaviourPolicy", visit: int) -> Collected:
        """Publish a policy, and return the next rollout of any thread."""
        self._version += 1
        self.published = Published(self._version, self.here(acting))
        if not self._actors:
            numbers = range(self.num_actors)
            self._actors = [Actor(self, visit, number) for number in numbers]
            self._usual_turn = sys.getswitchinterval()
            sys.setswitchinterval(TURN)
            for actor in self._actors:
                actor.start()
        try:
            answer, taken = self.offers.get(timeout=SECONDS_OF_SILENCE)
        except queue.Empty:
            raise self._silent(visit) from None
        taken.set()
        if isinstance(answer, Exception):
            raise self._failed(visit, answer) from answer
        assert answer.lag is not None
        return answer._replace(lag=self._version - answer.lag)

    def _silent(self, visit: int) -> PersonaeError:
        task = self.programs.tasks.name(self.programs.task_of(visit))
        return PersonaeError(
            f"the environments of task {task!r} have not answered for "
            f"{SECONDS_OF_SILENCE} seconds, so they seem to hang; --resume goes on "
            "from the last checkpoint, with new ones"
        )

    def _failed(self, visit: int, error: Exception) -> Exception:
        if isinstance(error, PersonaeError | UsageError):
            return error
        task = self.programs.tasks.name(self.programs.task_of(visit))
        return PersonaeError(
            f"a thread that acts in task {task!r} has stopped: "
            f"{type(error).__name__}: {error}; --resume goes on from the last "
            "checkpoint"
        )

    def snapshot(self) -> None:
        """Return nothing: what the threads do at a time is not repeated."""

    def resume(self, visit: int, saved: Mapping[str, np.ndarray] | None) -> None:
        """Begin the visit's environments anew."""
        self.begin(visit)

    def _stop(self) -> None:
        """End all threads; one that hangs ends with the program."""
        for actor in self._actors:
            actor.ending.set()
        for actor in self._actors:
            actor.join(timeout=50 * PATIENCE)
        if self._actors:
            sys.setswitchinterval(self._usual_turn)
        self._actors = []
        self.offers = queue.SimpleQueue()  # nobody hears of what comes late

    def close(self) -> None:
        """End all threads and environments."""
        self._stop()
        super().close()
