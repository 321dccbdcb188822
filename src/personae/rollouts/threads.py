"""Actors in threads, which act while agents learn: `hosting.stepping` threads.

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
from typing import NamedTuple

import jax

from personae.errors import PersonaeError, UsageError
from personae.rollouts.collector import RolloutCollector
from personae.rollouts.contract import BehaviourPolicy, CollectedRollout, EnvSnapshot
from personae.rollouts.host_context import HostContext
from personae.rollouts.policies import HostPolicies

SILENCE_LIMIT = 600
"""Seconds without a rollout after which environments count as hanging; compiling takes
less."""
POLL_INTERVAL = 0.2
"""Seconds after which a waiting thread checks whether it should end."""
SWITCH_INTERVAL = 5e-4
"""Seconds after which Python hands its lock on. Threads that act need it for moments
only; at Python's own 5 ms one that traces a program slows them to a twentieth."""


_fold_in_all = jax.jit(jax.vmap(jax.random.fold_in, (0, None)))


class PublishedPolicy(NamedTuple):
    """A policy, and the number of policies published before it."""

    version: int
    policy: BehaviourPolicy


class Offer(NamedTuple):
    """A rollout, or an error, that a thread offers the learner."""

    content: CollectedRollout | Exception
    accepted: threading.Event


class RolloutExchange:
    """Passes policies to the threads of one visit, and their rollouts back."""

    def __init__(self, num_actors: int):
        self.num_actors = num_actors
        self.ending = threading.Event()
        self._offers: queue.SimpleQueue[Offer] = queue.SimpleQueue()
        self._published: PublishedPolicy | None = None

    @property
    def newest(self) -> PublishedPolicy:
        """The policy that was published last."""
        assert self._published is not None
        return self._published

    def publish(self, policy: BehaviourPolicy) -> None:
        """Make a policy the newest."""
        version = 0 if self._published is None else self._published.version + 1
        self._published = PublishedPolicy(version, policy)

    def offer(self, content: CollectedRollout | Exception) -> None:
        """Offer a rollout, and return when it has been accepted."""
        offer = Offer(content, threading.Event())
        self._offers.put(offer)
        while not (self.ending.is_set() or offer.accepted.wait(POLL_INTERVAL)):
            pass

    def take(self) -> CollectedRollout | Exception:
        """Accept the next offer of any thread; raise queue.Empty if none comes."""
        content, accepted = self._offers.get(timeout=SILENCE_LIMIT)
        accepted.set()
        return content


class ActorThread(threading.Thread):
    """Acts in environments of its own until its visit ends."""

    def __init__(
        self,
        context: HostContext,
        policies: HostPolicies,
        exchange: RolloutExchange,
        visit: int,
        number: int,
    ):
        super().__init__(name=f"actor-{number}", daemon=True)
        self._context, self._policies, self._exchange = context, policies, exchange
        self._visit, self._number = visit, number

    def run(self) -> None:
        """Act, rollout after rollout; errors are offered like rollouts."""
        try:
            collector = RolloutCollector(
                self._context, self._policies, self._visit, self._number
            )
            try:
                collector.start()
                self._act(collector)
            finally:
                collector.close()
        except Exception as error:  # or it would be lost with the thread
            self._exchange.offer(error)

    def _act(self, collector: RolloutCollector) -> None:
        exchange, rollouts = self._exchange, 0
        while not exchange.ending.is_set():
            version, policy = exchange.newest
            # No two rollouts of a visit draw the same actions, whatever their thread.
            draw = rollouts * exchange.num_actors + self._number
            keys = _fold_in_all(policy.key, draw)
            collected = collector.collect(policy._replace(key=keys))
            exchange.offer(collected._replace(policy_lag=version))
            rollouts += 1


class ThreadedActors:
    """Actors in threads; the learner takes their rollouts as they come."""

    def __init__(self, context: HostContext, policies: HostPolicies):
        self._context, self._policies = context, policies
        self._threads: list[ActorThread] = []
        self._exchange = RolloutExchange(context.hosting.actors)
        self._usual_interval = sys.getswitchinterval()

    @property
    def acts_during_training(self) -> bool:
        """Threads act while agents learn."""
        return True

    def begin(self, visit: int) -> None:
        """End the threads of the visit before; new ones start with the first policy."""
        self._stop()

    def collect(self, policy: BehaviourPolicy, visit: int) -> CollectedRollout:
        """Publish a policy, and return the next rollout of any thread."""
        exchange = self._exchange
        exchange.publish(policy)
        if not self._threads:
            self._start(visit)
        try:
            content = exchange.take()
        except queue.Empty:
            raise self._silence_error(visit) from None
        if isinstance(content, Exception):
            raise self._failure(visit, content) from content
        assert content.policy_lag is not None
        # Threads note the version they acted with; here it becomes an age.
        lag = exchange.newest.version - content.policy_lag
        return content._replace(policy_lag=lag)

    def _start(self, visit: int) -> None:
        self._threads = [
            ActorThread(self._context, self._policies, self._exchange, visit, number)
            for number in range(self._exchange.num_actors)
        ]
        self._usual_interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL)
        for thread in self._threads:
            thread.start()

    def _silence_error(self, visit: int) -> PersonaeError:
        return PersonaeError(
            f"the environments of task {self._context.task_name(visit)!r} have not "
            f"answered for {SILENCE_LIMIT} seconds, so they seem to hang; --resume "
            "goes on from the last checkpoint, with new ones"
        )

    def _failure(self, visit: int, error: Exception) -> Exception:
        if isinstance(error, PersonaeError | UsageError):
            return error
        return PersonaeError(
            f"a thread that acts in task {self._context.task_name(visit)!r} has "
            f"stopped: {type(error).__name__}: {error}; --resume goes on from the "
            "last checkpoint"
        )

    def report(self) -> Mapping[str, list[float]] | None:
        """Return nothing: threads of one machine are much alike."""
        return None

    def snapshot(self) -> EnvSnapshot | None:
        """Return nothing: the timing of threads cannot be repeated."""
        return None

    def resume(self, visit: int, snapshot: EnvSnapshot | None) -> None:
        """Begin the visit's environments anew."""
        self.begin(visit)

    def _stop(self) -> None:
        """End all threads; one that hangs ends with the program."""
        self._exchange.ending.set()
        for thread in self._threads:
            # A thread ends at its next step, unless its environment hangs.
            thread.join(timeout=50 * POLL_INTERVAL)
        if self._threads:
            sys.setswitchinterval(self._usual_interval)
        self._threads = []
        # A new one, as late rollouts still go to the exchange of the old visit.
        self._exchange = RolloutExchange(self._context.hosting.actors)

    def close(self) -> None:
        """End all threads, which close their environments."""
        self._stop()
