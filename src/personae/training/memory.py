"""What agents remember: unrolls of long ago, in one file on disk.

The file is cut into slots of equal size; a slot holds one unroll of each agent. An
unroll that is forgotten leaves its slot as it is until no checkpoint points there any
more, so that a run which is killed finds all that its checkpoints remember. The file
therefore grows to what is remembered and what a few chunks add to it, and no further.
Slots are read and written as files are, not mapped: memory in use stays the same.
"""

import errno
import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from personae.errors import PersonaeError, UsageError
from personae.methods.base import Replay
from personae.rundir import write_atomically

ADDED, DRAWN, REVIEWED = range(3)
"""What randomness is for. It is the same for all agents, whoever is beside them."""
CHUNKS_IN_FLIGHT = 3
"""Chunks whose unrolls may be forgotten but still needed: two that are checkpoints, and
the one that is being trained."""


class Kept(NamedTuple):
    """What is remembered of unrolls, `[unroll, time, ...]`."""

    unrolls: Any
    policy: Any
    task: Any


class Slots:
    """A file of records of one form."""

    def __init__(self, path: Path, form: Kept):
        """Open or make it; `form` has the shapes of one unroll of all agents."""
        leaves, self._structure = jax.tree.flatten(form)
        fields = [
            (str(i), np.dtype(leaf.dtype), leaf.shape) for i, leaf in enumerate(leaves)
        ]
        self.record = np.dtype(fields)
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def write(self, slots: np.ndarray, kept: Any) -> None:
        """Put unrolls, `[agent, unroll, ...]`, into slots."""
        records = np.empty(len(slots), self.record)
        for name, leaf in zip(self.record.names or (), kept, strict=True):
            records[name] = np.swapaxes(leaf, 0, 1)
        data, size = records.view(np.uint8), self.record.itemsize
        try:
            for i, slot in enumerate(slots):
                part: Any = data[i * size : (i + 1) * size]
                if os.pwrite(self._file, part, int(slot) * size) < size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise PersonaeError(
                f"cannot write {self._path}: {error.strerror}. What was saved before "
                "is whole; --resume goes on from there, once there is room"
            ) from error

    def read(self, slots: np.ndarray) -> Kept:
        """Return what is in slots, `[agent, unroll, ...]`."""
        records, size = np.empty(len(slots), self.record), self.record.itemsize
        data = records.view(np.uint8)
        for i, slot in enumerate(slots):
            part: Any = data[i * size : (i + 1) * size]
            if os.preadv(self._file, [part], int(slot) * size) < size:
                raise PersonaeError(
                    f"{self._path} is shorter than its checkpoint says: it was changed"
                )
        leaves = [np.swapaxes(records[name], 0, 1) for name in self.record.names or ()]
        return jax.tree.unflatten(self._structure, leaves)

    def sync(self) -> None:
        """Force what was written to disk."""
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Memory:
    """What all agents remember, and what is drawn from it for each update."""

    def __init__(
        self,
        folder: Path,
        replay: Replay,
        form: Kept,
        unrolls: int,
        owner: Mapping[str, Any],
    ):
        """Open it; `unrolls` come with each rollout, `owner` says whose it is."""
        self._replay, self._unrolls = replay, unrolls
        length = jax.tree.leaves(form.unrolls.steps.done)[0].shape[1]
        self.capacity = replay.frames // length
        self._drawn_at_a_time = round(replay.share * unrolls)
        folder.mkdir(parents=True, exist_ok=True)
        _check_owner(folder / "memories.json", {**owner, "form": _described(form)})
        self._slots = Slots(folder / "memories.bin", form)
        self._folder, self._form = folder, form
        self._places = np.zeros(0, np.int64)
        self._added = self._drawn = self._end = 0
        self._free: list[int] = []
        self._new: set[int] = set()
        self._forgotten: list[list[int]] = [[]]
        self._worker = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None
        self._reading: Future[Any] | None = None

    def check_room(self, chunk: int) -> None:
        """Refuse more than the disk can hold, with so many rollouts in a chunk."""
        slots = self.capacity + CHUNKS_IN_FLIGHT * min(
            chunk * self._unrolls, self.capacity
        )
        size = self._slots.record.itemsize
        there = shutil.disk_usage(self._folder).free + self._end * size
        if slots * size > there:
            raise UsageError(
                f"to remember {self._replay.frames} frames (frames) takes up to "
                f"{slots * size / 1e9:.1f} GB in {self._folder}, where "
                f"{there / 1e9:.1f} GB are free"
            )

    def keep(self, kept: Kept) -> None:
        """Remember some of a rollout's unrolls, `[agent, unroll, ...]`, on devices."""
        which, places = self._chosen()
        self._added += self._unrolls
        if self._writing is not None:
            self._writing.result()
        if len(which):
            slots = self._take_slots(places)
            some = _some(jax.tree.leaves(kept), which)
            self._writing = self._worker.submit(self._write, slots, some)
        if self._drawn_at_a_time:
            self._reading = self._draw_ahead()

    def _write(self, slots: np.ndarray, leaves: list[Any]) -> None:
        host = [np.asarray(leaf)[: self._agents, : len(slots)] for leaf in leaves]
        self._slots.write(slots, host)

    @property
    def _agents(self) -> int:
        return int(self._form.task.shape[0])

    def _chosen(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which unrolls of a rollout are remembered, and in whose place.

        A fair sample: the n-th unroll ever is taken with probability capacity / n, and
        pushes any other one out (Vitter, 1985).
        """
        order = self._added + np.arange(self._unrolls)
        places = order % self.capacity
        if self._replay.keep == "any":
            random = np.random.default_rng((ADDED, self._added))
            drawn = random.integers(0, order + 1)
            places = np.where(order < self.capacity, order, drawn)
        last = {int(p): i for i, p in enumerate(places) if p < self.capacity}
        which = sorted(last.values())
        return np.asarray(which, np.int64), places[which]

    def _take_slots(self, places: np.ndarray) -> np.ndarray:
        """Return a slot for each place, and forget what was in the place."""
        grown = max(len(self._places), int(places.max()) + 1)
        new_places = np.full(grown - len(self._places), -1)
        self._places = np.concatenate([self._places, new_places])
        for slot in self._places[places]:
            if slot < 0:
                continue
            if slot in self._new:  # which no checkpoint has seen
                self._new.discard(slot)
                self._free.append(int(slot))
            else:
                self._forgotten[-1].append(int(slot))
        taken = [self._free.pop() if self._free else self._grow() for _ in places]
        self._new.update(taken)
        self._places[places] = taken
        return np.asarray(taken)

    def _grow(self) -> int:
        self._end += 1
        return self._end - 1

    def recall(self) -> tuple[Kept, np.ndarray]:
        """Return unrolls for one update, and which of them are there already."""
        number = self._drawn_at_a_time
        if self._reading is None:
            self._reading = self._draw_ahead()
        kept = self._reading.result()
        self._reading = None
        self._drawn += 1
        return kept, np.full((self._agents, number), len(self._places) > 0)

    def _draw_ahead(self) -> Future[Any]:
        number = self._drawn_at_a_time
        if len(self._places) == 0:
            return self._worker.submit(self._blank, number)
        slots = self._draw(number, (DRAWN, self._drawn))
        return self._worker.submit(self._slots.read, slots)

    def _draw(self, number: int, purpose: tuple[int, ...]) -> np.ndarray:
        """Choose slots: different ones, if there are enough."""
        random, there = np.random.default_rng(purpose), len(self._places)
        return self._places[random.choice(there, number, replace=there < number)]

    def _blank(self, number: int) -> Any:
        def blank(leaf: Any) -> np.ndarray:
            return np.zeros((leaf.shape[0], number, *leaf.shape[1:]), leaf.dtype)

        return jax.tree.map(blank, self._form)

    def review(self, rollout: int) -> Kept:
        """Return as many unrolls as a rollout has, to look back on."""
        slots = self._draw(self._unrolls, (REVIEWED, self._added, rollout))
        return self._worker.submit(self._slots.read, slots).result()

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return what brings it back, after a chunk."""
        self._new.clear()
        self._forgotten.append([])
        counts = np.asarray([self._added, self._drawn, self._end])
        return {"places": self._places.copy(), "counts": counts}

    def sync(self) -> None:
        """Force to disk what was written up to now."""
        self._worker.submit(self._slots.sync).result()

    def saved(self) -> None:
        """Give slots back that the last two checkpoints no longer need.

        To be called after a chunk, when the one before is safe.
        """
        while len(self._forgotten) > CHUNKS_IN_FLIGHT:
            self._free += self._forgotten.pop(0)

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Bring it back as it was when a checkpoint was taken."""
        self._places = saved["places"].astype(np.int64)
        self._added, self._drawn, self._end = map(int, saved["counts"])
        # An older checkpoint may need them still.
        unused = set(range(self._end)) - set(self._places.tolist())
        self._forgotten = [sorted(unused)]

    def close(self) -> None:
        """Finish writing."""
        self._worker.shutdown()
        self._slots.close()


@jax.jit
def _at(leaves: list[Any], which: Any) -> list[Any]:
    return [leaf[:, which] for leaf in leaves]


def _some(leaves: list[Any], which: np.ndarray) -> list[Any]:
    """Return some unrolls of all agents, where they are, and perhaps a few more.

    Their number is a power of two, so that few programs are compiled.
    """
    padded = np.zeros(1 << (len(which) - 1).bit_length(), np.int64)
    padded[: len(which)] = which
    return _at(leaves, padded)


def _described(form: Kept) -> list[str]:
    leaves = jax.tree.leaves(form)
    return [f"{np.dtype(leaf.dtype)}{list(leaf.shape)}" for leaf in leaves]


def _check_owner(path: Path, owner: Mapping[str, Any]) -> None:
    """Refuse memories of another run, or of another form."""
    text = json.dumps(dict(owner), indent=1, sort_keys=True)
    if not path.exists():
        write_atomically(path, text.encode())
        return
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise PersonaeError(f"{path} cannot be read: {error}") from error
    for name, value in owner.items():
        if found.get(name) != value:
            raise PersonaeError(
                f"the memories in {path.parent} are of another run: their {name} is "
                f"{found.get(name)!r}, this run's is {value!r}"
            )
