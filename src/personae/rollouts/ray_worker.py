"""What acts on a node of its own: environments, and the policies it is sent."""

import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from personae.serialise import from_plain

if TYPE_CHECKING:
    from personae.rollouts.collector import Collected, Stage
    from personae.training.host_trainer import BehaviourPolicy


class Policy(NamedTuple):
    """What acts, as it travels: arrays in host memory."""

    version: int
    acting: "BehaviourPolicy"
    """Its keys as plain numbers."""


class Answer(NamedTuple):
    """A rollout, and how it came about."""

    collected: "Collected"
    version: int
    """Of the policy that acted."""
    seconds: float
    """How long it took."""
    identity: int
    """Of who acted: another one than before, if that has died."""


class RemoteActor:
    """Acts in environments of its own; Ray keeps it alive."""

    def __init__(self, config: Mapping[str, Any], number: int, actors: int):
        jax.config.update("jax_platforms", "cpu")
        from personae.rollouts.vector_actors import Players
        from personae.training.config import RunConfig
        from personae.training.host_trainer import HostPrograms

        told = from_plain(RunConfig, config, "order")
        told.prepare_backend(devices=1)
        method = told.make_method()
        programs = HostPrograms(told.curriculum, method, told.seeds, 1, Players)
        self._players = programs.players
        self._identity = secrets.randbits(16)
        # Who comes in the place of one that died meets other episodes than that did.
        self._number = number + actors * self._identity
        self._visit = -1
        self._stage: Stage | None = None

    def collect(self, visit: int, draw: int, policy: Policy) -> Answer:
        """Act for a rollout with a policy that was sent."""
        began = time.perf_counter()
        acting = policy.acting
        keys = jax.random.wrap_key_data(acting.key)
        keys = jax.vmap(jax.random.fold_in, (0, None))(keys, draw)
        collected = self._open(visit).collect(acting._replace(key=keys))
        sent = jax.tree.map(np.asarray, collected)
        seconds = time.perf_counter() - began
        return Answer(sent, policy.version, seconds, self._identity)

    def _open(self, visit: int) -> "Stage":
        """Return the environments of a visit."""
        from personae.rollouts.collector import Stage

        if self._stage is None or visit != self._visit:
            if self._stage is not None:
                self._stage.close()
            self._stage = Stage(self._players, visit, self._number)
            self._stage.start()
            self._visit = visit
        return self._stage
