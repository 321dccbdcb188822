"""A file of records of equal size, and the allocation of its slots.

The slot of a deleted record is not reused until no checkpoint refers to it any more, so
that a run which is killed finds all records of its checkpoints. The file therefore
grows to the size of the store and of the changes of a few chunks, and no further.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import Int, PyTree

from personae.errors import PersonaeError

Slots: TypeAlias = Int[np.ndarray, " _"]
"""Positions in the file, counted in records."""


def record_dtype(form: PyTree) -> np.dtype[np.void]:
    """Return the type of a record that holds arrays of these shapes."""
    leaves = enumerate(jax.tree.leaves(form))
    return np.dtype([(str(i), np.dtype(x.dtype), x.shape) for i, x in leaves])


class RecordFile:
    """A file of records, one per slot.

    It is read and written, not mapped: a mapped file would fill the memory with its
    pages.
    """

    def __init__(self, path: Path, form: PyTree):
        """Open or create the file; `form` is a tree of the shapes of one record."""
        self._structure = jax.tree.structure(form)
        self._record = record_dtype(form)
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def write(self, slots: Slots, leaves: Iterable[np.ndarray]) -> None:
        """Write arrays, `[agent, record, ...]`, into slots."""
        records = np.empty(len(slots), self._record)
        for name, leaf in zip(self._record.names or (), leaves, strict=True):
            records[name] = np.swapaxes(leaf, 0, 1)
        try:
            for data, offset in self._parts(records, slots):
                # A full disk can also show as a short write, without an error.
                if os.pwrite(self._file, data, offset) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise PersonaeError(
                f"cannot write {self._path}: {error.strerror}. All that was saved "
                "before is whole; --resume continues from there, once there is room"
            ) from error

    def read(self, slots: Slots) -> PyTree[np.ndarray]:
        """Return the records in slots, `[agent, record, ...]`."""
        records = np.empty(len(slots), self._record)
        for data, offset in self._parts(records, slots):
            if os.preadv(self._file, [data], offset) < len(data):
                raise PersonaeError(
                    f"{self._path} is shorter than its checkpoint says: it was changed"
                )
        names = self._record.names or ()
        leaves = [np.swapaxes(records[name], 0, 1) for name in names]
        return jax.tree.unflatten(self._structure, leaves)

    def _parts(
        self, records: np.ndarray, slots: Slots
    ) -> Iterator[tuple[memoryview, int]]:
        """Yield the bytes of each record and their offset in the file."""
        data, size = records.view(np.uint8).data, self._record.itemsize
        # Slots of one request are scattered: there is no larger piece to read at once.
        for i, slot in enumerate(slots):
            yield data[i * size : (i + 1) * size], int(slot) * size

    def sync(self) -> None:
        """Force all writes to disk."""
        # Not fsync: of the file's metadata only its size counts, which is synced too.
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class SlotAllocator:
    """Decides which slots may be overwritten.

    A slot is free, in use, or released: its record is deleted, but a checkpoint may
    still refer to it.
    """

    def __init__(self, chunks_in_flight: int) -> None:
        """Hold released slots back for so many chunks."""
        self._chunks_in_flight = chunks_in_flight
        self.end = 0
        """Number of slots that were ever in use."""
        self._free: list[int] = []
        self._new: set[int] = set()
        self._released: list[list[int]] = [[]]
        """Released slots by chunk, the current one last."""

    def allocate(self, number: int) -> Slots:
        """Return slots to write to."""
        reused = [self._free.pop() for _ in range(min(number, len(self._free)))]
        grown = range(self.end, self.end + number - len(reused))
        self.end = grown.stop
        slots = [*reused, *grown]
        self._new.update(slots)
        return np.asarray(slots, np.int64)

    def release(self, slots: Slots) -> None:
        """Allow slots to be overwritten as soon as no checkpoint refers to them."""
        for slot in slots.tolist():
            if slot in self._new:  # no checkpoint can refer to it yet
                self._new.discard(slot)
                self._free.append(slot)
            else:
                self._released[-1].append(slot)

    def end_chunk(self) -> None:
        """Note that a checkpoint may refer to all slots that are in use now."""
        self._new.clear()
        self._released.append([])

    def free_released(self) -> None:
        """Free slots that were released before all chunks that may be in flight.

        To be called after a chunk has ended, when no more chunks are in flight.
        """
        while len(self._released) > self._chunks_in_flight:
            self._free += self._released.pop(0)

    def restore(self, slots: Slots, previous_slots: Slots, end: int) -> None:
        """Restore the state at a checkpoint.

        Args:
            slots: The slots that the checkpoint refers to.
            previous_slots: Those that the checkpoint before it refers to.
            end: Number of slots that were ever in use.
        """
        in_use, previous = set(slots.tolist()), set(previous_slots.tolist())
        self.end = end
        self._free = sorted(set(range(end)) - in_use - previous)
        # As if the older records had been deleted in the chunk between the two.
        self._new, self._released = set(), [sorted(previous - in_use), []]
