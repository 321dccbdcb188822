"""What agents remember: unrolls of long ago, in one file on disk (`slots.py`)."""

import json
import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from personae.errors import PersonaeError, UsageError
from personae.files import write_atomically
from personae.methods.contract import ReplaySpec
from personae.runs.slot_allocator import RecordFile, SlotAllocator, record_dtype

ADDED, DRAWN, REVIEWED = range(3)
"""What randomness is for. It is the same for all agents, whoever is beside them."""
SPARE = 2
"""Unrolls that are kept for each that is looked back on."""


class ReplayRecord(NamedTuple):
    """What is remembered of unrolls."""

    unrolls: Any
    """A `Rollout`, with the unrolls in front, `[unroll, time, ...]`."""
    policy: Any
    """What the agent would have done, `[unroll, time, ...]`, if that is kept."""
    task: Any
    """The index of the task, `[unroll]`."""


class Bound(NamedTuple):
    """How much is kept."""

    unrolls: int
    every: int
    """Of how many unrolls one is kept."""


class GradientSampling(NamedTuple):
    """How memories are looked back on, in unrolls."""

    gradient_batches: int
    """Looked at when a task ends."""
    shortest: int
    """Of the shortest visit."""


def bound(
    replay: ReplaySpec, form: ReplayRecord, looking: GradientSampling | None
) -> Bound:
    """Return how much is kept.

    What is for looking back only need not be kept as a whole: a sample of it, twice as
    large as what is looked at, spans as many steps.
    """
    most = replay.frames // form.unrolls.steps.done.shape[1]
    if replay.share > 0 or replay.retain == "any" or looking is None:
        return Bound(most, 1)
    there = min(most, looking.shortest)
    every = max(1, there // (SPARE * looking.gradient_batches))
    return Bound(most // every, every)


class ReplayStore:
    """What all agents remember, and what is drawn from it for each update.

    A worker writes and reads, one thing after another, while agents act and learn.
    """

    def __init__(
        self,
        folder: Path,
        replay: ReplaySpec,
        form: ReplayRecord,
        unrolls: int,
        owner: Mapping[str, Any],
        in_flight: int,
        looking: GradientSampling | None = None,
    ):
        """Open it, for so many unrolls in each rollout; `owner` says whose it is.

        `form` has the shapes of one unroll of all agents; `in_flight` is of how many
        chunks what is forgotten may still be needed: those that are checkpoints, and
        those that are being judged and saved.
        """
        self._replay, self._form, self._unrolls = replay, form, unrolls
        self.capacity, self._every = bound(replay, form, looking)
        self._number = replay.unrolls(unrolls)
        folder.mkdir(parents=True, exist_ok=True)
        _check_owner(folder / "memories.json", {**owner, "form": _described(form)})
        self._slots = RecordFile(folder / "memories.bin", form)
        self._tenants = SlotAllocator(in_flight)
        self._places = np.zeros(0, np.int64)
        self._added = self._kept = self._drawn = self._since = 0
        self._worker = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None
        self._reading: Future[Any] | None = None

    def begin_visit(self) -> None:
        """Begin another task: what is newest is that of the task."""
        if self._reading is not None:
            self._reading.result()
        self._reading, self._since = None, self._kept

    def add(self, kept: ReplayRecord) -> None:
        """Remember some of a rollout's unrolls, `[agent, unroll, ...]`, on devices."""
        which, places = self._chosen()
        self._added += self._unrolls
        self._kept += len(which)
        self._finish_writing()
        if len(which):
            grown = max(len(self._places), int(places.max()) + 1)
            room = np.full(grown - len(self._places), -1)
            self._places = np.concatenate([self._places, room])
            old = self._places[places]
            self._tenants.forget(old[old >= 0])
            self._places[places] = slots = self._tenants.take(len(places))
            some = _some(jax.tree.leaves(kept), which)
            self._writing = self._worker.submit(self._write, slots, some)
        if self._number:
            self._reading = self._draw_ahead()

    def _write(self, slots: np.ndarray, leaves: list[Any]) -> None:
        host = [np.asarray(leaf)[: self._agents, : len(slots)] for leaf in leaves]
        self._slots.write(slots, host)

    def _finish_writing(self) -> None:
        if self._writing is not None:
            self._writing.result()
        self._writing = None

    @property
    def _agents(self) -> int:
        return int(self._form.task.shape[0])

    def _chosen(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which unrolls of a rollout are remembered, and in whose place.

        A fair sample: the n-th unroll ever is taken with probability capacity / n, and
        pushes any other one out (Vitter, 1985). The newest: those before make room.
        """
        random = np.random.default_rng((ADDED, self._added))
        if self._replay.retain == "newest":
            chosen = random.random(self._unrolls) * self._every < 1
            which = np.flatnonzero(chosen)[-self.capacity :]
            return which, (self._kept + np.arange(len(which))) % self.capacity
        order = self._added + np.arange(self._unrolls)
        render_frame = random.integers(0, order + 1)
        places = np.where(order < self.capacity, order, render_frame)
        last = {int(p): i for i, p in enumerate(places) if p < self.capacity}
        which = np.asarray(sorted(last.values()), np.int64)
        return which, places[which]

    def sample(self) -> tuple[ReplayRecord, np.ndarray]:
        """Return unrolls for one update, and which of them are there already."""
        known = np.full((self._agents, self._number), len(self._eligible()) > 0)
        if self._reading is None:
            self._reading = self._draw_ahead()
        kept = self._reading.result()
        self._reading = None
        self._drawn += 1
        return kept, known

    def _eligible(self) -> np.ndarray:
        """Return the slots to draw from: if the newest count, those of this visit."""
        if self._replay.retain == "any":
            return self._places
        first = max(self._since, self._kept - self.capacity)
        return self._places[np.arange(first, self._kept) % self.capacity]

    def _draw_ahead(self) -> Future[Any]:
        if len(self._eligible()) == 0:
            return self._worker.submit(self._blank)
        slots = self._draw(self._number, (DRAWN, self._drawn))
        return self._worker.submit(self._slots.read, slots)

    def _draw(self, number: int, purpose: tuple[int, ...]) -> np.ndarray:
        """Choose slots: different ones, if there are enough."""
        random, there = np.random.default_rng(purpose), self._eligible()
        return random.choice(there, number, replace=len(there) < number)

    def _blank(self) -> Any:
        def blank(leaf: Any) -> np.ndarray:
            shape = (leaf.shape[0], self._number, *leaf.shape[1:])
            return np.zeros(shape, leaf.dtype)

        return jax.tree.map(blank, self._form)

    def sample_for_gradient(self, rollout: int) -> Any:
        """Return as many unrolls as a rollout has, to look back on."""
        slots = self._draw(self._unrolls, (REVIEWED, self._added, rollout))
        return self._worker.submit(self._slots.read, slots).result()

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return what brings it back, after a chunk; all of it is written."""
        self._finish_writing()
        self._tenants.end_chunk()
        counts = [self._added, self._kept, self._drawn, self._since]
        counts.append(self._tenants.end)
        return {"places": self._places.copy(), "counts": np.asarray(counts)}

    def sync(self) -> None:
        """Force to disk what was written up to now."""
        self._slots.sync()

    def release_slots(self) -> None:
        """Free slots after a chunk, when no more are in flight than was said."""
        self._tenants.saved()

    def restore(
        self, saved: Mapping[str, np.ndarray], older: Mapping[str, np.ndarray] | None
    ) -> None:
        """Bring it back as it was when a checkpoint was taken; an older one is kept."""
        self._places = saved["places"].astype(np.int64)
        *counts, end = map(int, saved["counts"])
        self._added, self._kept, self._drawn, self._since = counts
        needed = self._places if older is None else older["places"]
        self._tenants.restore(self._places, needed, end)

    def close(self) -> None:
        """Finish writing."""
        self._worker.shutdown()
        self._slots.close()


def check_disk_space(
    folder: Path,
    replay: ReplaySpec,
    form: ReplayRecord,
    chunk: int,
    in_flight: int,
    looking: GradientSampling | None = None,
) -> None:
    """Refuse more than the disk can hold, with so many unrolls in a chunk."""
    most, every = bound(replay, form, looking)
    slots = most + in_flight * min(-(-chunk // every), most)
    needed = slots * record_dtype(form).itemsize
    file = folder / "memories.bin"
    there = file.stat().st_blocks * 512 if file.exists() else 0
    whole = next(path for path in (folder, *folder.parents) if path.exists())
    free = there + shutil.disk_usage(whole).free
    if needed > free:
        raise UsageError(
            f"to remember {replay.frames} frames (frames) takes up to "
            f"{needed / 1e9:.1f} GB in {folder}, where {free / 1e9:.1f} GB are free"
        )


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


def _described(form: ReplayRecord) -> list[str]:
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
