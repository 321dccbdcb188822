"""What the nodes of a cluster have, and whether all of them can do the work."""

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import personae
from personae.errors import PersonaeError
from personae.launch.jobs import CORES_FOR_A_GPU_RUN, Job
from personae.runs.provenance import versions
from personae.runs.store import Store
from personae.training.config import RunConfig
from personae.training.factory import on_device

T = TypeVar("T")
GPU_SHARE = 0.125
"""What a run takes of a GPU."""
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
    """Of each node that runs can be on: those with GPUs, if there are any."""
    gpus: bool
    """Whether any node has one."""

    def request_for(self, config: RunConfig) -> Request:
        """Return what a run should ask for.

        Environments outside JAX are stepped on as many cores as there are.
        """
        cpus, share = max(self.cpus), GPU_SHARE if self.gpus else 0.0
        if on_device(config.curriculum):
            cpus = min(cpus, CORES_FOR_A_GPU_RUN if self.gpus else len(config.seeds))
        return Request(max(1, cpus), share)

    def group_size(self, jobs: Sequence[Job]) -> int:
        """Return how many seeds should stay together.

        All of them on GPUs, and as long as there are runs for all cores; else as many
        as keep every core busy.
        """
        seeds = sum(len(job.config.seeds) for job in jobs)
        most = max(len(job.config.seeds) for job in jobs)
        wanted = sum(self.request_for(job.config).cpus for job in jobs)
        if self.gpus or wanted >= sum(self.cpus):
            return most
        return max(1, min(max(self.cpus), seeds // sum(self.cpus)))


def room_on(ray: Any) -> Room:
    """Look what a cluster has."""
    there = [node["Resources"] for node in _alive(ray)]
    with_gpus = [node for node in there if node.get("GPU", 0) >= 1]
    cpus = tuple(int(node.get("CPU", 0)) for node in with_gpus or there)
    return Room(cpus, bool(with_gpus))


def installed() -> Mapping[str, str | None]:
    """Say what is installed here: versions, and a digest of our own source."""
    source = hashlib.sha256()
    for path in sorted(Path(personae.__file__).parent.rglob("*.py")):
        source.update(path.read_bytes())
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **versions(), "source": source.hexdigest()[:12]}


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """Say what a node has that would make its numbers others, if anything."""
    for what, value in ours.items():
        if theirs[what] != value:
            return (
                f"{what} {theirs[what]}, this machine {value}: numbers would differ, "
                "so install the same"
            )
    return None


def check_versions(ray: Any) -> None:
    """Refuse nodes on which numbers would differ."""
    ours = installed()
    for name, theirs in _everywhere(ray, installed).items():
        found = difference(ours, theirs)
        if found is not None:
            raise PersonaeError(f"the node {name} has {found}")


def check_place(ray: Any, place: str, mark: str) -> None:
    """Refuse nodes that do not see a mark where results go, a folder or a store."""
    for name, pipeline in _everywhere(ray, sees_mark, place, mark).items():
        if not pipeline:
            raise PersonaeError(f"the node {name} {unseen(place)}")


def sees_mark(place: str, mark: str) -> bool:
    """Tell whether this node sees a mark that was left at a place."""
    return Store(place).has(mark)


def unseen(place: str) -> str:
    """Say what is wrong with a node that does not see a place."""
    return (
        f"does not see {place}: give an --out that all share, or a --store that all "
        "reach"
    )


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
        except ray.exceptions.GetTimeoutError as error:
            raise PersonaeError(
                f"the node {_name(ray, identity)} has not answered for {ANSWER_IN} s"
            ) from error
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
