"""What the nodes of a cluster have, and whether all of them can do the work."""

import platform
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeVar

from personae.cluster.store import Store
from personae.errors import PersonaeError
from personae.training import Job

T = TypeVar("T")
PACKAGES = ("personae", "jax", "equinox", "optax", "numpy")
"""What decides numbers, and has to be the same on all nodes."""
GPU_SHARE, CPUS_FOR_A_GPU_RUN = 0.125, 2
"""What a run takes of a GPU, and the cores that feed it."""
MEMORY = 0.9
"""Of a GPU's memory, what all runs on it may take together."""
ANSWER_IN = 120
"""Seconds in which a node has to answer."""


@dataclass(frozen=True)
class Request:
    """What a run asks of a node."""

    cpus: int
    gpus: float

    @property
    def memory_share(self) -> float:
        """The share of a GPU's memory that it may take."""
        return MEMORY * self.gpus


@dataclass(frozen=True)
class Room:
    """What a cluster has."""

    cpus: tuple[int, ...]
    """Of each node."""
    gpus: bool
    """Whether any node has one."""

    def request_for(self, seeds: int) -> Request:
        """Return what a run of so many agents should ask for."""
        if self.gpus:
            return Request(CPUS_FOR_A_GPU_RUN, GPU_SHARE)
        return Request(max(1, min(seeds, max(self.cpus))), 0.0)

    def group_size(self, jobs: Sequence[Job]) -> int:
        """Return how many seeds should stay together.

        All of them on GPUs, and as long as there are runs for all cores; else as many
        as keep every core busy.
        """
        seeds = sum(len(job.config.seeds) for job in jobs)
        most = max(len(job.config.seeds) for job in jobs)
        wanted = sum(min(len(job.config.seeds), max(self.cpus)) for job in jobs)
        if self.gpus or wanted >= sum(self.cpus):
            return most
        return max(1, min(max(self.cpus), seeds // sum(self.cpus)))


def room_on(ray: Any) -> Room:
    """Look what a cluster has."""
    there = [node["Resources"] for node in _alive(ray)]
    gpus = any(node.get("GPU", 0) >= 1 for node in there)
    return Room(tuple(int(node.get("CPU", 0)) for node in there), gpus)


def installed() -> Mapping[str, str]:
    """Say what is installed here."""
    versions = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **versions}


def check_versions(ray: Any) -> None:
    """Refuse nodes on which numbers would differ."""
    ours = installed()
    for name, theirs in _everywhere(ray, installed).items():
        for what, value in ours.items():
            if theirs[what] != value:
                raise PersonaeError(
                    f"the node {name} has {what} {theirs[what]}, this machine {value}: "
                    "numbers would differ, so install the same"
                )


def check_place(ray: Any, place: str) -> None:
    """Refuse nodes that do not see where results go, a folder or a store."""
    token = f".personae-{uuid.uuid4().hex}"
    store = Store(place)
    store.mark(token)
    try:
        for name, sees in _everywhere(ray, _sees, place, token).items():
            if not sees:
                raise PersonaeError(
                    f"the node {name} does not see {place}: give an --out that all "
                    "share, or a --store that all reach"
                )
    finally:
        store.remove(token)


def _sees(place: str, token: str) -> bool:
    return Store(place).has(token)


def _everywhere(ray: Any, do: Callable[..., T], *given: Any) -> dict[str, T]:
    """Do something on each node; return what came of it by the node's name.

    A node that died a moment ago is listed for some seconds more: it is left out when
    that has been noticed.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    asked = {}
    for node in _alive(ray):
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ask = ray.remote(do).options(num_cpus=0, scheduling_strategy=there)
        asked[node["NodeID"]] = ask.remote(*given)
    answers = {}
    for identity, task in asked.items():
        try:
            answers[_name(ray, identity)] = ray.get(task, timeout=ANSWER_IN)
        except ray.exceptions.RayError as error:
            if any(node["NodeID"] == identity for node in _alive(ray)):
                raise PersonaeError(
                    f"the node {_name(ray, identity)} cannot run Personae: "
                    f"{last_line(error)}. It has to be installed there"
                ) from error
    return answers


def _alive(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _name(ray: Any, identity: str) -> str:
    (node,) = (node for node in ray.nodes() if node["NodeID"] == identity)
    return f"{node['NodeManagerAddress']} ({identity[:6]})"


def last_line(error: Exception) -> str:
    """Return the last line of what an error says, which is what Ray's come to."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
