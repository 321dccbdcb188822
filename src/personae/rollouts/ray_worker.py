"""The part of a Ray actor that runs on its own node: its environments."""

import secrets
import time
from typing import NamedTuple

import jax
import numpy as np

from personae.backend import prepare_backend
from personae.curricula import Curriculum
from personae.rollouts.collector import RolloutCollector
from personae.rollouts.contract import BehaviourPolicy, CollectedRollout
from personae.rollouts.host_context import make_host_context
from personae.rollouts.policies import HostPolicies
from personae.serialise import PlainData


class SentPolicy(NamedTuple):
    """A policy as it travels: arrays in host memory."""

    version: int
    policy: BehaviourPolicy
    """Its keys are plain numbers."""


class RayRollout(NamedTuple):
    """A rollout, and how it was made."""

    collected: CollectedRollout
    version: int
    """Version of the policy that acted."""
    seconds: float
    """Time that it took."""
    identity: int
    """Identity of the worker: another number than before if it was replaced."""


class RayWorker:
    """Acts in environments of its own; Ray restarts it if it dies."""

    def __init__(
        self, curriculum: PlainData, seeds: tuple[int, ...], number: int, workers: int
    ):
        # Nodes may have GPUs, but a call per step is faster on the CPU.
        jax.config.update("jax_platforms", "cpu")
        config = Curriculum.from_plain(curriculum, "curriculum")
        images = config.network.convolutions is not None
        prepare_backend(len(seeds), images, devices=1)
        self._context = make_host_context(config, seeds)
        self._policies = HostPolicies(self._context)
        self._identity = secrets.randbits(16)
        # A worker that replaces a dead one plays other episodes than that one did.
        self._number = number + workers * self._identity
        self._visit = -1
        self._collector: RolloutCollector | None = None

    def collect(self, visit: int, draw: int, sent: SentPolicy) -> RayRollout:
        """Act for a rollout with a policy that was sent."""
        began = time.perf_counter()
        keys = jax.random.wrap_key_data(sent.policy.key)
        # Rollouts with the same policy must not repeat each other's actions.
        keys = jax.vmap(jax.random.fold_in, (0, None))(keys, draw)
        collected = self._open(visit).collect(sent.policy._replace(key=keys))
        on_host = jax.tree.map(np.asarray, collected)
        seconds = time.perf_counter() - began
        return RayRollout(on_host, sent.version, seconds, self._identity)

    def _open(self, visit: int) -> RolloutCollector:
        """Return the environments of a visit."""
        if self._collector is None or visit != self._visit:
            if self._collector is not None:
                self._collector.close()
            self._collector = RolloutCollector(
                self._context, self._policies, visit, self._number
            )
            self._collector.start()
            self._visit = visit
        return self._collector
