"""The replay store: unrolls of long ago, in one file on disk (`slot_allocator.py`)."""

import json
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from personae.errors import PersonaeError, UsageError
from personae.files import Arrays, write_atomically
from personae.methods.contract import ReplaySpec
from personae.runs.slot_allocator import (
    RecordFile,
    SlotAllocator,
    Slots,
    record_dtype,
)
from personae.serialise import PlainData
from personae.types import Distribution, Rollout

ADDING, SAMPLING, GRADIENT = range(3)
"""Purposes of random numbers. They are the same for all agents, so that an agent's
numbers do not depend on the agents beside it."""
SPARE = 2
"""Unrolls that are stored for each one that the gradient is computed from."""
RECORDS, OWNER = "records.bin", "records.json"


class ReplayRecord(NamedTuple):
    """Unrolls in the store, or their shapes."""

    unrolls: Rollout
    """Experience, `[unroll, time, ...]`."""
    policy: Distribution | None
    """The agent's own policy at each step, `[unroll, time, ...]`, if it is stored."""
    task: Int[Array, " unrolls"]
    """The index of the task."""


class Capacity(NamedTuple):
    """The size of a store."""

    unrolls: int
    every: int
    """One of so many unrolls is stored."""


class GradientSampling(NamedTuple):
    """The use of a store for a gradient at the end of each task, in unrolls."""

    unrolls: int
    """Unrolls that the gradient is computed from."""
    shortest_visit: int
    """Unrolls of the shortest visit."""


def capacity_of(
    replay: ReplaySpec, form: ReplayRecord, sampling: GradientSampling | None
) -> Capacity:
    """Return how many unrolls are stored.

    A store that only serves a gradient need not hold all of them: a sample, twice as
    large as the gradient needs, spans as many steps.
    """
    largest = replay.frames // form.unrolls.steps.done.shape[1]
    if replay.share > 0 or replay.retain == "any" or sampling is None:
        return Capacity(largest, 1)
    available = min(largest, sampling.shortest_visit)
    every = max(1, available // (SPARE * sampling.unrolls))
    return Capacity(largest // every, every)


class ReplayStore:
    """The unrolls of all agents, from which each update and gradient takes a sample.

    A worker thread writes and reads, one request after another, while agents act and
    learn.
    """

    def __init__(
        self,
        folder: Path,
        replay: ReplaySpec,
        form: ReplayRecord,
        unrolls: int,
        owner: PlainData,
        chunks_in_flight: int,
        sampling: GradientSampling | None = None,
    ):
        """Open or create a store.

        Args:
            folder: The folder of its files.
            replay: How much the method stores and replays.
            form: The shapes of one unroll of all agents.
            unrolls: Unrolls in each rollout.
            owner: Settings of the run that the store belongs to.
            chunks_in_flight: Chunks that may still need deleted records: those that
                are checkpoints, and those that are being evaluated and saved.
            sampling: The use of the store for gradients, if there is any.
        """
        self._replay, self._form, self._unrolls = replay, form, unrolls
        self.capacity, self._every = capacity_of(replay, form, sampling)
        self._sample_size = replay.unrolls(unrolls)
        folder.mkdir(parents=True, exist_ok=True)
        _check_owner(folder / OWNER, {**owner, "form": _described(form)})
        self._file = RecordFile(folder / RECORDS, form)
        self._allocator = SlotAllocator(chunks_in_flight)
        self._slots: Slots = np.zeros(0, np.int64)
        """The slot of each unroll in the store."""
        self._added = self._stored = self._samples = self._visit_start = 0
        # One thread: a sample must not be read before its records are written.
        self._worker = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None
        self._reading: Future[ReplayRecord] | None = None

    def begin_visit(self) -> None:
        """Begin another task: from now on the newest unrolls are those of the task."""
        # The sample that was read ahead belongs to the task before.
        if self._reading is not None:
            self._reading.result()
        self._reading, self._visit_start = None, self._stored

    def add(self, record: ReplayRecord) -> None:
        """Store some of a rollout's unrolls, `[agent, unroll, ...]`, on devices."""
        chosen, positions = self._choose()
        self._added += self._unrolls
        self._stored += len(chosen)
        # At most one write is under way: the arrays of more would fill the devices.
        self._finish_writing()
        if len(chosen):
            slots = self._replace_slots(positions)
            leaves = _take(jax.tree.leaves(record), chosen)
            self._writing = self._worker.submit(self._write, slots, leaves)
        if self._sample_size:
            self._reading = self._sample_ahead()

    def _replace_slots(self, positions: Int[np.ndarray, " unrolls"]) -> Slots:
        """Return new slots for some positions in the store, and release the old."""
        missing = max(0, int(positions.max()) + 1 - len(self._slots))
        self._slots = np.concatenate([self._slots, np.full(missing, -1)])
        old = self._slots[positions]
        self._allocator.release(old[old >= 0])
        self._slots[positions] = slots = self._allocator.allocate(len(positions))
        return slots

    def _write(self, slots: Slots, leaves: list[Array]) -> None:
        # Devices may hold padding, of agents as well as of unrolls.
        host = [np.asarray(leaf)[: self._agents, : len(slots)] for leaf in leaves]
        self._file.write(slots, host)

    def _finish_writing(self) -> None:
        if self._writing is not None:
            self._writing.result()
        self._writing = None

    @property
    def _agents(self) -> int:
        return int(self._form.task.shape[0])

    def _choose(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which unrolls of a rollout are stored, and at which positions.

        A fair sample: the n-th unroll ever is stored with probability capacity / n, and
        replaces any other one (Vitter, 1985). The newest: those before are replaced.
        """
        random = np.random.default_rng((ADDING, self._added))
        if self._replay.retain == "newest":
            is_chosen = random.random(self._unrolls) * self._every < 1
            chosen = np.flatnonzero(is_chosen)[-self.capacity :]
            return chosen, (self._stored + np.arange(len(chosen))) % self.capacity
        order = self._added + np.arange(self._unrolls)
        candidates = random.integers(0, order + 1)
        positions = np.where(order < self.capacity, order, candidates)
        # Of several unrolls for one position the last replaces the others.
        last = {int(p): i for i, p in enumerate(positions) if p < self.capacity}
        chosen = np.asarray(sorted(last.values()), np.int64)
        return chosen, positions[chosen]

    def sample(self) -> tuple[ReplayRecord, Bool[np.ndarray, "agents unrolls"]]:
        """Return unrolls for one update, and which of them exist."""
        exist = np.full((self._agents, self._sample_size), len(self._eligible()) > 0)
        if self._reading is None:
            self._reading = self._sample_ahead()
        record = self._reading.result()
        self._reading = None
        self._samples += 1
        return record, exist

    def _eligible(self) -> Slots:
        """Return the slots to sample from: of the newest, only those of this visit."""
        if self._replay.retain == "any":
            return self._slots
        first = max(self._visit_start, self._stored - self.capacity)
        return self._slots[np.arange(first, self._stored) % self.capacity]

    def _sample_ahead(self) -> Future[ReplayRecord]:
        """Read the next update's sample while the agents act."""
        if len(self._eligible()) == 0:
            return self._worker.submit(self._blank)
        slots = self._sample_slots(self._sample_size, (SAMPLING, self._samples))
        return self._worker.submit(self._file.read, slots)

    def _sample_slots(self, number: int, purpose: tuple[int, ...]) -> Slots:
        """Return random slots, all different if there are enough."""
        # Seeded by counts that checkpoints hold: a resumed run takes the same samples.
        random, eligible = np.random.default_rng(purpose), self._eligible()
        return random.choice(eligible, number, replace=len(eligible) < number)

    def _blank(self) -> ReplayRecord:
        def blank(leaf: jax.ShapeDtypeStruct) -> np.ndarray:
            shape = (leaf.shape[0], self._sample_size, *leaf.shape[1:])
            return np.zeros(shape, leaf.dtype)

        return jax.tree.map(blank, self._form)

    def sample_for_gradient(self, rollout: int) -> ReplayRecord:
        """Return as many unrolls as a rollout has, for the gradient of a task."""
        purpose = (GRADIENT, self._added, rollout)
        slots = self._sample_slots(self._unrolls, purpose)
        return self._worker.submit(self._file.read, slots).result()

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return arrays that restore the store, after a chunk; all of it is written."""
        self._finish_writing()
        self._allocator.end_chunk()
        counts = [self._added, self._stored, self._samples, self._visit_start]
        counts.append(self._allocator.end)
        # A copy: the next chunk changes the array while this one is saved.
        return {"slots": self._slots.copy(), "counts": np.asarray(counts)}

    def sync(self) -> None:
        """Force all writes up to now to disk."""
        self._file.sync()

    def release_slots(self) -> None:
        """Free slots after a chunk, when no more than `chunks_in_flight` are."""
        self._allocator.free_released()

    def restore(self, snapshot: Arrays, previous: Arrays | None) -> None:
        """Restore the store at a checkpoint, and spare the records of the one before.

        Args:
            snapshot: The snapshot in the checkpoint.
            previous: The snapshot in the checkpoint before it, if there is one.
        """
        self._slots = snapshot["slots"].astype(np.int64)
        *counts, end = map(int, snapshot["counts"])
        self._added, self._stored, self._samples, self._visit_start = counts
        spared = self._slots if previous is None else previous["slots"]
        self._allocator.restore(self._slots, spared, end)

    def close(self) -> None:
        """Finish writing and close the file."""
        self._worker.shutdown()
        self._file.close()


def check_disk_space(
    folder: Path,
    replay: ReplaySpec,
    form: ReplayRecord,
    chunk_unrolls: int,
    chunks_in_flight: int,
    sampling: GradientSampling | None = None,
) -> None:
    """Refuse a store that the disk cannot hold, with so many unrolls in a chunk."""
    unrolls, every = capacity_of(replay, form, sampling)
    slots = unrolls + chunks_in_flight * min(-(-chunk_unrolls // every), unrolls)
    needed = slots * record_dtype(form).itemsize
    file = folder / RECORDS
    # A run that is resumed has part of the space already.
    occupied = file.stat().st_blocks * 512 if file.exists() else 0
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = occupied + shutil.disk_usage(existing).free
    if needed > free:
        raise UsageError(
            f"to store {replay.frames} frames (frames) takes up to "
            f"{needed / 1e9:.1f} GB in {folder}, where {free / 1e9:.1f} GB are free"
        )


_at = jax.jit(lambda leaves, indices: [leaf[:, indices] for leaf in leaves])


def _take(
    leaves: list[Array] | list[np.ndarray], indices: Int[np.ndarray, " unrolls"]
) -> list[Array]:
    """Return some unrolls of all agents, on their devices, and perhaps a few more.

    Their number is a power of two, so that few programs are compiled.
    """
    padded = np.zeros(1 << (len(indices) - 1).bit_length(), np.int64)
    padded[: len(indices)] = indices
    return _at(leaves, padded)


def _described(form: PyTree) -> list[str]:
    leaves = jax.tree.leaves(form)
    return [f"{np.dtype(leaf.dtype)}{list(leaf.shape)}" for leaf in leaves]


def _check_owner(path: Path, owner: PlainData) -> None:
    """Refuse the store of another run, or with records of another form."""
    text = json.dumps(dict(owner), indent=1, sort_keys=True)
    if not path.exists():
        write_atomically(path, text.encode())
        return
    try:
        stored = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise PersonaeError(f"{path} cannot be read: {error}") from error
    for name, value in owner.items():
        if stored.get(name) != value:
            raise PersonaeError(
                f"the replay store in {path.parent} belongs to another run: its {name} "
                f"is {stored.get(name)!r}, this run's is {value!r}"
            )
