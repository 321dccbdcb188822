"""The nodes of a cluster: their resources, and checks that all can do the work."""

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from personae.errors import PersonaeError, last_line
from personae.launch.jobs import CORES_FOR_A_GPU_RUN, Job
from personae.runs.provenance import versions
from personae.runs.store import Store
from personae.serialise import PlainData
from personae.training.config import RunConfig
from personae.training.factory import on_device

T = TypeVar("T")
GPU_SHARE = 0.125
"""The share of a GPU that a run takes."""
MEMORY = 0.9
"""The share of a GPU's memory that all runs on it may take together."""
SECONDS_TO_ANSWER = 120
"""Seconds within which a node has to answer."""


@dataclass(frozen=True)
class Request:
    """The resources that a run asks a node for."""

    cpus: int
    gpus: float

    @property
    def memory_share(self) -> float:
        """The share of a GPU's memory that the run may take."""
        return MEMORY * self.gpus


@dataclass(frozen=True)
class ClusterResources:
    """The resources of a cluster."""

    cpus: tuple[int, ...]
    """Cores of each node that runs can be on: those with GPUs, if there are any."""
    gpus: bool
    """Whether any node has a GPU."""

    def request_for(self, config: RunConfig) -> Request:
        """Return the resources that a run should ask for.

        Environments outside JAX are stepped on as many cores as there are.
        """
        # Ray takes one node for a task, so a run can ask for no more than the largest.
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
        largest = max(len(job.config.seeds) for job in jobs)
        requested = sum(self.request_for(job.config).cpus for job in jobs)
        if self.gpus or requested >= sum(self.cpus):
            return largest
        return max(1, min(max(self.cpus), seeds // sum(self.cpus)))


def cluster_resources(ray: Any) -> ClusterResources:
    """Return the resources of a cluster."""
    resources = [node["Resources"] for node in _alive_nodes(ray)]
    with_gpus = [node for node in resources if node.get("GPU", 0) >= 1]
    cpus = tuple(int(node.get("CPU", 0)) for node in with_gpus or resources)
    return ClusterResources(cpus, bool(with_gpus))


def installed_versions() -> dict[str, str | None]:
    """Return the versions on this machine, and a digest of this package's source."""
    # The version alone would not tell a source tree that somebody works on.
    source = hashlib.sha256()
    for path in sorted(Path(__file__).parent.parent.rglob("*.py")):
        source.update(path.read_bytes())
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **versions(), "source": source.hexdigest()[:12]}


def version_difference(
    own: Mapping[str, str | None], other: Mapping[str, str | None]
) -> str | None:
    """Return the first version of a node that would change its numbers, if any."""
    for name, value in own.items():
        if other[name] != value:
            return (
                f"{name} {other[name]}, this machine {value}: numbers would differ, "
                "so install the same"
            )
    return None


def check_versions(ray: Any) -> None:
    """Refuse nodes on which numbers would differ."""
    own = installed_versions()
    for name, other in _on_all_nodes(ray, installed_versions).items():
        difference = version_difference(own, other)
        if difference is not None:
            raise PersonaeError(f"the node {name} has {difference}")


def check_location(ray: Any, location: str, mark: str) -> None:
    """Refuse nodes that do not see a mark in the folder or store of the results."""
    for name, sees in _on_all_nodes(ray, sees_mark, location, mark).items():
        if not sees:
            raise PersonaeError(f"the node {name} {not_seen(location)}")


def sees_mark(location: str, mark: str) -> bool:
    """Tell whether this node sees a mark in a folder or store."""
    return Store(location).has(mark)


def not_seen(location: str) -> str:
    """Return the message for a node that does not see a folder or store."""
    return (
        f"does not see {location}: give an --out that all share, or a --store that "
        "all reach"
    )


def _on_all_nodes(
    ray: Any, function: Callable[..., T], *arguments: object
) -> dict[str, T]:
    """Call a function on each node; return its results by the node's name.

    A node that died a moment ago is listed for some seconds more: it is left out when
    that has been noticed.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # All nodes work at the same time: the answers are awaited in a second loop.
    tasks: PlainData = {}
    for node in _alive_nodes(ray):
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        remote = ray.remote(function).options(num_cpus=0, scheduling_strategy=strategy)
        tasks[node["NodeID"]] = remote.remote(*arguments)
    results = {}
    for identity, task in tasks.items():
        try:
            results[_name(ray, identity)] = ray.get(task, timeout=SECONDS_TO_ANSWER)
        except ray.exceptions.GetTimeoutError as error:
            raise PersonaeError(
                f"the node {_name(ray, identity)} has not answered for "
                f"{SECONDS_TO_ANSWER} s"
            ) from error
        except ray.exceptions.RayError as error:
            if any(node["NodeID"] == identity for node in _alive_nodes(ray)):
                raise PersonaeError(
                    f"the node {_name(ray, identity)} cannot run Personae: "
                    f"{last_line(error)}. It has to be installed there"
                ) from error
    return results


def _alive_nodes(ray: Any) -> list[PlainData]:
    return [node for node in ray.nodes() if node["Alive"]]


def _name(ray: Any, identity: str) -> str:
    (node,) = (node for node in ray.nodes() if node["NodeID"] == identity)
    # Several nodes may share an address, as in the tests.
    return f"{node['NodeManagerAddress']} ({identity[:6]})"
