"""A file of records of one form, and which of its slots may be overwritten.

A record that is forgotten leaves its slot as it is until no checkpoint points there any
more, so that a run which is killed finds all that its checkpoints remember. The file
therefore grows to what is remembered and what a few chunks add to it, and no further.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from personae.errors import PersonaeError


def record_dtype(form: Any) -> np.dtype[Any]:
    """Return the type of a record that holds arrays of these shapes."""
    leaves = enumerate(jax.tree.leaves(form))
    return np.dtype([(str(i), np.dtype(x.dtype), x.shape) for i, x in leaves])


class RecordFile:
    """The file. It is read and written, not mapped: memory in use stays the same."""

    def __init__(self, path: Path, form: Any):
        """Open or make it; `form` is a tree of the shapes of one record."""
        self._structure = jax.tree.structure(form)
        self._record = record_dtype(form)
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def write(self, slots: np.ndarray, leaves: Iterable[np.ndarray]) -> None:
        """Put arrays, `[agent, record, ...]`, into slots."""
        records = np.empty(len(slots), self._record)
        for name, leaf in zip(self._record.names or (), leaves, strict=True):
            records[name] = np.swapaxes(leaf, 0, 1)
        try:
            for part, place in self._parts(records, slots):
                if os.pwrite(self._file, part, place) < len(part):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise PersonaeError(
                f"cannot write {self._path}: {error.strerror}. What was saved before "
                "is whole; --resume goes on from there, once there is room"
            ) from error

    def read(self, slots: np.ndarray) -> Any:
        """Return what is in slots, `[agent, record, ...]`."""
        records = np.empty(len(slots), self._record)
        for part, place in self._parts(records, slots):
            if os.preadv(self._file, [part], place) < len(part):
                raise PersonaeError(
                    f"{self._path} is shorter than its checkpoint says: it was changed"
                )
        names = self._record.names or ()
        leaves = [np.swapaxes(records[name], 0, 1) for name in names]
        return jax.tree.unflatten(self._structure, leaves)

    def _parts(self, records: np.ndarray, slots: np.ndarray) -> Iterable[Any]:
        """Yield the bytes of each record and their place in the file."""
        data, size = records.view(np.uint8), self._record.itemsize
        for i, slot in enumerate(slots):
            yield data[i * size : (i + 1) * size], int(slot) * size

    def sync(self) -> None:
        """Force what was written to disk."""
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class SlotAllocator:
    """Which slots are taken, free, or forgotten but still needed by a checkpoint."""

    def __init__(self, in_flight: int) -> None:
        """Let records of so many chunks be forgotten, but still needed."""
        self._in_flight = in_flight
        self.end = 0
        """Slots that were ever taken."""
        self._free: list[int] = []
        self._new: set[int] = set()
        self._forgotten: list[list[int]] = [[]]

    def take(self, number: int) -> np.ndarray:
        """Return slots to write to."""
        reused = [self._free.pop() for _ in range(min(number, len(self._free)))]
        grown = range(self.end, self.end + number - len(reused))
        self.end = grown.stop
        taken = [*reused, *grown]
        self._new.update(taken)
        return np.asarray(taken, np.int64)

    def forget(self, slots: np.ndarray) -> None:
        """Let slots be overwritten, as soon as no checkpoint needs them."""
        for slot in slots.tolist():
            if slot in self._new:  # which no checkpoint has seen
                self._new.discard(slot)
                self._free.append(slot)
            else:
                self._forgotten[-1].append(slot)

    def end_chunk(self) -> None:
        """From now on a checkpoint may need what is taken."""
        self._new.clear()
        self._forgotten.append([])

    def saved(self) -> None:
        """Free what was forgotten before all chunks that may be in flight now.

        To be called after a chunk has ended, when no more of them are.
        """
        while len(self._forgotten) > self._in_flight:
            self._free += self._forgotten.pop(0)

    def restore(self, taken: np.ndarray, needed: np.ndarray, end: int) -> None:
        """Go on from a checkpoint, sparing what an older one needs."""
        ours, theirs = set(taken.tolist()), set(needed.tolist())
        self.end = end
        self._free = sorted(set(range(end)) - ours - theirs)
        self._new, self._forgotten = set(), [sorted(theirs - ours), []]
