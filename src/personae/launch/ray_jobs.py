"""Runs on a Ray cluster: each is a Ray task, and goes on from its last checkpoint.

Ray places the tasks, starts them again when a node dies, and carries what they have to
say. All nodes write to one folder, which they share, or to a store.
"""

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from personae.errors import PersonaeError, UsageError, require
from personae.launch.display import JobsDisplay
from personae.launch.jobs import Job
from personae.launch.ray_connection import connected, import_ray
from personae.launch.ray_nodes import (
    check_place,
    check_versions,
    installed,
    last_line,
    room_on,
)
from personae.launch.ray_orders import Order, Outcome, carry_out
from personae.launch.seed_groups import arriving, drop_groups, join, split
from personae.runs.directory import RunDirectory
from personae.runs.progress import Progress
from personae.runs.signals import Interrupt
from personae.runs.store import Store

TRIES = 10
"""How often a run is started again when its node or its process dies."""


def learn_on_ray(
    jobs: Sequence[Job], where: str, quiet: bool = False, store: str | None = None
) -> None:
    """Make all runs on a cluster; what is finished is not made again.

    If one fails the others go on, and what failed is said at the end. Ctrl-C stops each
    after the chunk it is at.
    """
    top = _folder_of_all(jobs)  # of the finished, too: names in a store stay the same
    jobs = [job for job in jobs if not _is_whole(job)]
    if not jobs:
        return
    if store is not None:
        _check_that_all_can_travel(jobs)
    place, ray = store or str(top), import_ray()
    with connected(ray, where), Interrupt() as interrupt, _marked(place) as mark:
        check_versions(ray)
        check_place(ray, place, mark)
        room, here = room_on(ray), installed()
        size = room.group_size(jobs)
        groups = [split(job, size) for job in jobs]

        def order(part: Job) -> Order:
            return Order(
                part.name,
                part.config.to_plain(),
                place,
                _name_of(part, top),
                room.request_for(part.config),
                here,
                mark,
                shared=store is None,
            )

        orders = [order(part) for parts in groups for part in parts]
        with JobsDisplay([each.name for each in orders], quiet) as board:
            fleet = _Fleet(ray, orders, board)
            while fleet.going:
                fleet.apply_network()
                if interrupt.requested:
                    fleet.stop()
        for job, parts in zip(jobs, groups, strict=True):
            if store is not None:
                _bring_home(parts, top, Store(store))
            if len(parts) > 1 and all(map(_is_finished, parts)):
                join(job, parts)
        if interrupt.requested:
            raise KeyboardInterrupt
    fleet.say_what_failed()


def _folder_of_all(jobs: Sequence[Job]) -> Path:
    """Return the folder that all runs are in, which is made if need be."""
    top = Path(os.path.commonpath([job.out.resolve().parent for job in jobs]))
    top.mkdir(parents=True, exist_ok=True)
    return top


def _name_of(job: Job, top: Path) -> str:
    """Return what a run directory is called, seen from the folder of all."""
    return str(job.out.resolve().relative_to(top))


def _is_finished(job: Job) -> bool:
    return RunDirectory(job.out).finished


def _is_whole(job: Job) -> bool:
    finished = _is_finished(job)
    if finished:
        drop_groups(job)  # if the program was killed before it could
    return finished


def _check_that_all_can_travel(jobs: Sequence[Job]) -> None:
    """Refuse what cannot go through a store."""
    for job in jobs:
        require(
            job.config.make_method().traits.replay is None,
            f"{job.name} keeps its memories on disk, too much to be sent after each "
            "chunk: leave --store out and share a folder",
        )
        require(
            not job.out.exists() or not any(job.out.iterdir()),
            f"{job.out} holds something already, such as a run that was begun without "
            "--store: finish that so, or delete it",
        )


@contextmanager
def _marked(place: str) -> Iterator[str]:
    """Leave a mark where results go, as long as runs are made."""
    mark, store = f".personae-{secrets.token_hex(8)}", Store(place)
    store.write(mark, "here")
    try:
        yield mark
    finally:
        store.remove(mark)


def _bring_home(parts: Sequence[Job], top: Path, store: Store) -> None:
    """Bring what is finished from the store."""
    for part in parts:
        name = _name_of(part, top)
        if _is_finished_there(store, name):
            with arriving(part.out) as folder:
                store.pull(name, folder)


def _is_finished_there(store: Store, name: str) -> bool:
    told = store.read(f"{name}/run.json")
    return told is not None and json.loads(told)["status"] == "finished"


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

    def __init__(self, ray: Any, orders: Sequence[Order], board: JobsDisplay):
        self._ray, self._board = ray, board
        self._stopped = False
        self._failed: dict[str, Outcome] = {}
        self._told = Told()
        self._tasks: dict[Any, Order] = {}
        for order in orders:
            self._send(order)

    def _send(self, order: Order) -> None:
        task = self._ray.remote(
            num_cpus=order.request.cpus,
            num_gpus=order.request.gpus,
            max_calls=1,  # JAX is started anew for each run
            max_retries=TRIES,
        )(carry_out)
        self._tasks[task.remote(order, self._told)] = order
        self._board.begin(order.name)

    @property
    def going(self) -> bool:
        """Whether any task is."""
        return bool(self._tasks)

    def apply_network(self) -> None:
        """See what has been said, and which tasks have ended."""
        done, _ = self._ray.wait(list(self._tasks), timeout=0.2)
        for name, fields in self._told.heard():
            self._board.show(name, Progress(**fields))
        for task in done:
            self._end(task, self._tasks.pop(task))

    def _end(self, task: Any, order: Order) -> None:
        try:
            outcome = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            outcome = Outcome(1, last_line(error))
        if outcome.interrupted and not self._stopped:
            self._send(order)  # its node was asked to shut down: elsewhere, then
            return
        if outcome.code != 0 and not self._stopped:
            self._failed[order.name] = outcome
        self._board.end(order.name, "done" if outcome.code == 0 else "stopped")

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
