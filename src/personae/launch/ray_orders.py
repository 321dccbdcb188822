"""The order that a Ray task receives, its execution and its outcome."""

import dataclasses
import os
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, runtime_checkable

from personae.errors import PersonaeError
from personae.launch.outcome import Outcome, outcome_of
from personae.launch.ray_nodes import (
    Request,
    installed_versions,
    not_seen,
    sees_mark,
    version_difference,
)
from personae.runs.directory import LockedError, RunDirectory
from personae.runs.progress import Progress, Show
from personae.runs.store import Claim, Store
from personae.serialise import PlainData, from_plain
from personae.training.config import RunConfig
from personae.training.loop import start

SECONDS_LOCKED = 60
"""Seconds that the previous process of a run has to end."""


@runtime_checkable
class ProgressQueue(Protocol):
    """A queue that carries progress from the tasks to this program."""

    def put_nowait(self, message: tuple[str, PlainData]) -> None:
        """Send the name of a run and the fields of its `Progress`."""
        ...


@dataclass(frozen=True)
class Order:
    """A run to make, and all that a node needs for it."""

    name: str
    config: PlainData
    location: str
    """The folder that nodes share, or the URL of the store that they reach."""
    out: str
    """The run directory there."""
    request: Request
    installed: Mapping[str, str | None]
    """The versions that have to be installed."""
    mark: str
    """A file at the location, by which a node can tell that it sees the same one."""
    shared: bool = True
    """Whether the location is a folder, in which runs can be made."""


def run_order(order: Order, queue: ProgressQueue) -> Outcome:
    """Make a run, from its last checkpoint if it has one, and send its progress."""
    if order.request.gpus:  # JAX reads these variables when it begins to compute
        os.environ.pop("XLA_CLIENT_MEM_FRACTION", None)
        share = f"{order.request.memory_share:.3f}"
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = share

    def report(progress: Progress) -> None:
        queue.put_nowait((order.name, dataclasses.asdict(progress)))

    return outcome_of(partial(_run, order, report))


def _run(order: Order, report: Show) -> None:
    _check_node(order)
    with Claim(Store(order.location), order.out) as claim:
        if order.shared:
            _learn_in_shared_folder(order, claim, report)
        else:
            _learn_through_store(order, claim, report)


def _check_node(order: Order) -> None:
    """Refuse an unfit node, which may have joined after the others were checked."""
    difference = version_difference(order.installed, installed_versions())
    if difference is not None:
        raise PersonaeError(f"the node {os.uname().nodename} has {difference}")
    if not sees_mark(order.location, order.mark):
        raise PersonaeError(
            f"the node {os.uname().nodename} {not_seen(order.location)}"
        )


def _learn_in_shared_folder(order: Order, claim: Claim, report: Show) -> None:
    def check_and_report(progress: Progress) -> None:
        claim.check()
        report(progress)

    _learn(order, Path(order.location, order.out), check_and_report)


def _learn_through_store(order: Order, claim: Claim, report: Show) -> None:
    """Learn in a folder of this node, and send it to the store after each chunk."""
    store = Store(order.location)
    with TemporaryDirectory() as name:
        folder = Path(name)
        store.pull(order.out, folder)

        def send_and_report(progress: Progress) -> None:
            claim.check()
            store.push(folder, order.out)
            report(progress)

        _learn(order, folder, send_and_report)
        # The masks of the last visit are written after its last chunk.
        claim.check()
        store.push(folder, order.out)


def _learn(order: Order, folder: Path, show: Show) -> None:
    config = from_plain(RunConfig, order.config, "order")
    config.prepare_backend()
    deadline = time.monotonic() + SECONDS_LOCKED
    while True:
        try:
            start(config, RunDirectory(folder), nullcontext(show), resume=True)
            return
        # The process before may not have noticed yet that another one has the claim.
        except LockedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)
