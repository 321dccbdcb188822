"""Runs on a Ray cluster: each is a Ray task that resumes from its last checkpoint.

Ray assigns the tasks to nodes, starts them again when a node dies, and carries their
progress. All nodes write to one folder, which they share, or to a store.
"""

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from personae.errors import last_line, require
from personae.launch.display import JobsDisplay
from personae.launch.jobs import Job
from personae.launch.outcome import FAILED, Outcome, raise_failures
from personae.launch.ray_connection import connection, import_ray
from personae.launch.ray_nodes import (
    check_location,
    check_versions,
    cluster_resources,
    installed_versions,
)
from personae.launch.ray_orders import Order, run_order
from personae.launch.seed_groups import drop_groups, join, new_folder, split
from personae.runs.directory import RunDirectory
from personae.runs.progress import Progress
from personae.runs.signals import Interrupt
from personae.runs.store import Store
from personae.serialise import PlainData

TRIES = 10
"""Starts of a run whose node or process dies again and again."""


def learn_on_ray(
    jobs: Sequence[Job], address: str, quiet: bool = False, store: str | None = None
) -> None:
    """Make all runs on a cluster; finished ones are not made again.

    If one fails the others go on, and the error at the end names all that failed.
    Ctrl-C stops each run after its current chunk.
    """
    # Of the finished runs, too: names in a store stay the same.
    top = _common_folder(jobs)
    jobs = [job for job in jobs if not _is_whole(job)]
    if not jobs:
        return
    if store is not None:
        _check_that_all_can_travel(jobs)
    location, ray = store or str(top), import_ray()
    with connection(ray, address), Interrupt() as interrupt, _mark(location) as mark:
        check_versions(ray)
        check_location(ray, location, mark)
        resources, installed = cluster_resources(ray), installed_versions()
        size = resources.group_size(jobs)
        groups = [split(job, size) for job in jobs]

        def order(part: Job) -> Order:
            return Order(
                part.name,
                part.config.to_plain(),
                location,
                _name_of(part, top),
                resources.request_for(part.config),
                installed,
                mark,
                shared=store is None,
            )

        orders = [order(part) for parts in groups for part in parts]
        failures = _run_orders(ray, orders, interrupt, quiet)
        # Also after Ctrl-C: some runs may have finished.
        for job, parts in zip(jobs, groups, strict=True):
            if store is not None:
                _pull_finished(parts, top, Store(store))
            if len(parts) > 1 and all(map(_is_finished, parts)):
                join(job, parts)
        if interrupt.requested:
            raise KeyboardInterrupt
    raise_failures(failures)


def _run_orders(
    ray: Any, orders: Sequence[Order], interrupt: Interrupt, quiet: bool
) -> dict[str, Outcome]:
    """Run all orders to their end, or until Ctrl-C; return those that failed."""
    with JobsDisplay([order.name for order in orders], quiet) as display:
        pool = RayJobPool(ray, orders, display)
        while pool.running:
            pool.poll()
            if interrupt.requested:
                pool.stop()
    return pool.failures


def _common_folder(jobs: Sequence[Job]) -> Path:
    """Return the folder that all runs are in, and create it."""
    top = Path(os.path.commonpath([job.out.resolve().parent for job in jobs]))
    top.mkdir(parents=True, exist_ok=True)
    return top


def _name_of(job: Job, top: Path) -> str:
    """Return the path of a run directory, relative to the folder of all."""
    return str(job.out.resolve().relative_to(top))


def _is_finished(job: Job) -> bool:
    return RunDirectory(job.out).finished


def _is_whole(job: Job) -> bool:
    finished = _is_finished(job)
    if finished:
        drop_groups(job)  # if the program was killed before it could
    return finished


def _check_that_all_can_travel(jobs: Sequence[Job]) -> None:
    """Refuse runs that cannot go through a store."""
    for job in jobs:
        require(
            job.config.make_method().traits.replay is None,
            f"{job.name} has a replay store on disk, too large to be sent after each "
            "chunk: leave --store out and share a folder",
        )
        require(
            not job.out.exists() or not any(job.out.iterdir()),
            f"{job.out} is not empty, perhaps because of a run that was begun without "
            "--store: finish that run so, or delete it",
        )


@contextmanager
def _mark(location: str) -> Iterator[str]:
    """Write a mark into the folder or store of the results, and delete it in the end.

    A folder of the same name on another node is not the same folder.
    """
    mark, store = f".personae-{secrets.token_hex(8)}", Store(location)
    store.write(mark, "here")
    try:
        yield mark
    finally:
        store.remove(mark)


def _pull_finished(parts: Sequence[Job], top: Path, store: Store) -> None:
    """Copy finished runs from the store."""
    for part in parts:
        name = _name_of(part, top)
        if _is_finished_in_store(store, name):
            with new_folder(part.out) as folder:
                store.pull(name, folder)


def _is_finished_in_store(store: Store, name: str) -> bool:
    text = store.read(f"{name}/run.json")
    return text is not None and json.loads(text)["status"] == "finished"


class MessageQueue:
    """Carries progress from tasks; messages are lost if the queue's node dies."""

    def __init__(self) -> None:
        from ray.util.queue import Queue

        self._queue = Queue(actor_options={"num_cpus": 0, "max_restarts": -1})

    def put_nowait(self, message: tuple[str, PlainData]) -> None:
        """Send the name of a run and the fields of its `Progress`."""
        from ray.exceptions import RayError

        # Progress is for the eye only: no run should fail because of it.
        with suppress(RayError):
            self._queue.put_nowait(message)

    def take_all(self) -> list[tuple[str, PlainData]]:
        """Return the messages since the last call."""
        from ray.exceptions import RayError

        with suppress(RayError):
            size = self._queue.qsize()
            return list(self._queue.get_nowait_batch(size)) if size else []
        return []


class RayJobPool:
    """The Ray tasks that make runs."""

    def __init__(self, ray: Any, orders: Sequence[Order], display: JobsDisplay):
        self.failures: dict[str, Outcome] = {}
        self._ray, self._display = ray, display
        self._stopped = False
        self._messages = MessageQueue()
        self._tasks: dict[Any, Order] = {}
        for order in orders:
            self._start(order)

    def _start(self, order: Order) -> None:
        task = self._ray.remote(
            num_cpus=order.request.cpus,
            num_gpus=order.request.gpus,
            max_calls=1,  # JAX is started anew for each run
            max_retries=TRIES,
        )(run_order)
        self._tasks[task.remote(order, self._messages)] = order
        self._display.begin(order.name)

    @property
    def running(self) -> bool:
        """Whether any task is running."""
        return bool(self._tasks)

    def poll(self) -> None:
        """Show new progress, and handle the tasks that have ended."""
        done, _ = self._ray.wait(list(self._tasks), timeout=0.2)
        for name, fields in self._messages.take_all():
            self._display.show(name, Progress(**fields))
        for task in done:
            self._end(task, self._tasks.pop(task))

    def _end(self, task: Any, order: Order) -> None:
        try:
            outcome = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            outcome = Outcome(FAILED, last_line(error))
        if outcome.interrupted and not self._stopped:
            # Its node was asked to shut down: another node takes the run.
            self._start(order)
            return
        if outcome.code != 0 and not self._stopped:
            self.failures[order.name] = outcome
        self._display.end(order.name, "done" if outcome.code == 0 else "stopped")

    def stop(self) -> None:
        """Ask all tasks, once, to stop after their current chunk."""
        if self._stopped:
            return
        self._stopped = True
        # Not by force: a task that is killed could not save its chunk.
        for task in self._tasks:
            self._ray.cancel(task, force=False)
