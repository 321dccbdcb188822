"""Actors that step all environments together, in this process or one process each."""

from collections.abc import Mapping

from personae.rollouts.collector import RolloutCollector
from personae.rollouts.contract import BehaviourPolicy, CollectedRollout, EnvSnapshot
from personae.rollouts.host_context import HostContext
from personae.rollouts.policies import HostPolicies


class VectorActors:
    """Collects rollouts one at a time: `hosting.stepping` sync and async."""

    def __init__(self, context: HostContext, policies: HostPolicies):
        self._context, self._policies = context, policies
        self._collector: RolloutCollector | None = None

    @property
    def acts_during_training(self) -> bool:
        """Environments wait while agents learn."""
        return False

    def begin(self, visit: int) -> None:
        """Open the environments of a visit."""
        self._open(visit).start()

    def _open(self, visit: int) -> RolloutCollector:
        self.close()
        self._collector = RolloutCollector(self._context, self._policies, visit)
        return self._collector

    def collect(self, policy: BehaviourPolicy, visit: int) -> CollectedRollout:
        """Act for one rollout."""
        assert self._collector is not None
        # Nothing runs meanwhile, so runs in turn are bit for bit repeatable.
        return self._collector.collect(policy)

    def report(self) -> Mapping[str, list[float]] | None:
        """Return nothing: there is one actor."""
        return None

    def snapshot(self) -> EnvSnapshot | None:
        """Return arrays that bring the environments back, if they can be."""
        assert self._collector is not None
        return self._collector.save()

    def resume(self, visit: int, snapshot: EnvSnapshot | None) -> None:
        """Bring environments back, or begin anew if none can be."""
        if snapshot is None:
            self.begin(visit)
        else:
            self._open(visit).repeat(snapshot)

    def close(self) -> None:
        """Close all environments."""
        if self._collector is not None:
            self._collector.close()
        self._collector = None
