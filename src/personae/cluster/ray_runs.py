"""Runs on a Ray cluster: each is a Ray task, and goes on from its last checkpoint.

Ray places the tasks, starts them again when a node dies, and carries what they have to
say. All nodes write to one folder, which they share, or to a store.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from personae.cluster.connect import connected, import_ray
from personae.cluster.groups import join, split
from personae.cluster.nodes import Room, check_place, check_versions, last_line, room_on
from personae.cluster.order import Order, Outcome, carry_out
from personae.cluster.store import Store
from personae.errors import PersonaeError, UsageError
from personae.rundir import RunDirectory
from personae.training import Board, Job
from personae.training.interrupt import Interrupt
from personae.training.progress import Moment

TRIES = 10
"""How often a run is started again when its node or its process dies."""


def learn_on_ray(
    jobs: Sequence[Job], where: str, quiet: bool = False, store: str | None = None
) -> None:
    """Make all runs on a cluster; what is finished is not made again.

    If one fails the others go on, and what failed is said at the end. Ctrl-C stops each
    after the chunk it is at.
    """
    jobs = [job for job in jobs if not RunDirectory(job.out).finished]
    if not jobs:
        return
    ray, top = import_ray(), _folder_of_all(jobs)
    with connected(ray, where), Interrupt() as interrupt:
        check_versions(ray)
        check_place(ray, store or str(top))
        room = room_on(ray)
        groups = [split(job, room.group_size(jobs)) for job in jobs]
        orders = _orders([part for parts in groups for part in parts], room, top, store)
        with Board([order.name for order in orders], quiet) as board:
            fleet = _Fleet(ray, orders, board)
            while fleet.going:
                fleet.look()
                if interrupt.requested:
                    fleet.stop()
        if interrupt.requested:
            raise KeyboardInterrupt
    fleet.say_what_failed()
    if store is not None:
        for order in orders:
            Store(store).pull(order.out, top / order.out)
    for job, parts in zip(jobs, groups, strict=True):
        if len(parts) > 1:
            join(job, parts)


def _folder_of_all(jobs: Sequence[Job]) -> Path:
    """Return the folder that all runs are in, which is made if need be."""
    top = Path(os.path.commonpath([job.out.resolve().parent for job in jobs]))
    top.mkdir(parents=True, exist_ok=True)
    return top


def _orders(
    jobs: Sequence[Job], room: Room, top: Path, store: str | None
) -> list[Order]:
    """Return what tasks are told."""
    request = room.request_for(max(len(job.config.seeds) for job in jobs))
    orders = []
    for job in jobs:
        out = job.out.resolve()
        name = str(out.relative_to(top) if store else out)
        orders.append(Order(job.name, job.config.to_plain(), name, request, store))
    return orders


class Told:
    """Carries what tasks tell; what is lost with the node it is on is not missed."""

    def __init__(self) -> None:
        from ray.util.queue import Queue

        self._queue = Queue(actor_options={"num_cpus": 0, "max_restarts": -1})

    def put_nowait(self, told: Any) -> None:
        """Tell something."""
        from ray.exceptions import RayError

        with suppress(RayError):
            self._queue.put_nowait(told)

    def heard(self) -> list[Any]:
        """Return what was told since the last time."""
        from ray.exceptions import RayError

        with suppress(RayError):
            size = self._queue.qsize()
            return list(self._queue.get_nowait_batch(size)) if size else []
        return []


class _Fleet:
    """The tasks at work."""

    def __init__(self, ray: Any, orders: Sequence[Order], board: Board):
        self._ray, self._board = ray, board
        self._stopped = False
        self._failed: dict[str, Outcome] = {}
        self._told = Told()
        self._tasks = {}
        for order in orders:
            task = ray.remote(
                num_cpus=order.request.cpus,
                num_gpus=order.request.gpus,
                max_calls=1,  # JAX is started anew for each run
                max_retries=TRIES,
            )(carry_out)
            self._tasks[task.remote(order, self._told)] = order.name
            board.begin(order.name)

    @property
    def going(self) -> bool:
        """Whether any task is."""
        return bool(self._tasks)

    def look(self) -> None:
        """See what has been said, and which tasks have ended."""
        done, _ = self._ray.wait(list(self._tasks), timeout=0.2)
        for name, fields in self._told.heard():
            self._board.show(name, Moment(**fields))
        for task in done:
            self._end(task, self._tasks.pop(task))

    def _end(self, task: Any, name: str) -> None:
        try:
            outcome = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            outcome = Outcome(1, last_line(error))
        if outcome.code != 0 and not self._stopped:
            self._failed[name] = outcome
        self._board.end(name, "done" if outcome.code == 0 else "stopped")

    def stop(self) -> None:
        """Ask all tasks, once, to stop after the chunk they are at."""
        if self._stopped:
            return
        self._stopped = True
        for task in self._tasks:
            self._ray.cancel(task, force=False)

    def say_what_failed(self) -> None:
        """Raise an error that names all runs that failed."""
        if not self._failed:
            return
        said = "; ".join(f"{name}: {o.said}" for name, o in self._failed.items())
        misused = all(outcome.misused for outcome in self._failed.values())
        raise (UsageError if misused else PersonaeError)(said)
