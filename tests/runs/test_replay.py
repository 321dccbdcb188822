"""What is remembered: which unrolls, where on disk, and after a crash."""

import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from personae.errors import PersonaeError, UsageError
from personae.methods import ReplaySpec
from personae.runs.replay import Looking, ReplayRecord, ReplayStore, check_disk_space
from personae.types import Rollout, Transition

LENGTH, AGENTS, UNROLLS = 5, 2, 3
LOOKING = Looking(gradient_batches=100, shortest=3000)
IN_FLIGHT = 3
"""Chunks: two that are checkpoints, and one that is being judged and saved."""
OWNER = {"method": "clear", "seeds": [0, 1], "unroll_length": LENGTH}


def unrolls_numbered(first, number=UNROLLS):
    """Return unrolls, `[agent, unroll, ...]`, that say which ones they are."""
    which = np.arange(first, first + number)
    marks = which + 1000 * np.arange(AGENTS)[:, None]
    over_time = np.repeat(marks[..., None], LENGTH, 2).astype(np.float32)
    images = np.broadcast_to(marks[..., None, None], (AGENTS, number, LENGTH, 4))
    steps = Transition(
        images.astype(np.uint8),
        over_time.astype(np.int32),
        over_time,
        over_time,
        over_time,
        over_time > 0,
    )
    last = images[:, :, 0].astype(np.uint8)
    return ReplayRecord(Rollout(steps, last), None, marks.astype(np.int32))


def one(leaf):
    return jax.ShapeDtypeStruct((leaf.shape[0], *leaf.shape[2:]), leaf.dtype)


FORM = jax.tree.map(one, unrolls_numbered(0))
SIZE = sum(np.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(FORM))


def open_memory(
    folder,
    capacity=4,
    keep="newest",
    share=1.0,
    owner=OWNER,
    in_flight=IN_FLIGHT,
    looking=None,
):
    replay = ReplaySpec(capacity * LENGTH, keep, share=share)
    return ReplayStore(folder, replay, FORM, UNROLLS, owner, in_flight, looking)


def remembered(memory):
    """Return the numbers of all unrolls in it, in order."""
    slots = memory._places
    kept = memory._worker.submit(memory._slots.read, slots).result()
    jax.tree.map(np.testing.assert_array_equal, kept, unrolls_of(kept.task[0]))
    return sorted(kept.task[0].tolist())


def unrolls_of(numbers):
    each = [unrolls_numbered(number, 1) for number in numbers]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *each)


def test_the_newest_are_remembered_as_they_were(tmp_path):
    memory = open_memory(tmp_path)
    for first in (0, 3, 6, 9):
        memory.keep(unrolls_numbered(first))
    assert remembered(memory) == [8, 9, 10, 11]


def test_all_are_as_likely_to_be_remembered(tmp_path):
    """The numbers of those that are left lie evenly in those that ever were."""
    memory = open_memory(tmp_path, capacity=200, keep="any", share=0.0)
    assert memory.capacity == 200
    for first in range(0, 3000, UNROLLS):
        memory.keep(unrolls_numbered(first))
    left = np.asarray(remembered(memory))
    assert len(left) == len(set(left)) == 200
    assert kstest(left / 3000, "uniform").pvalue > 0.05


def test_of_what_is_for_looking_back_only_a_sample_is_kept(tmp_path):
    """Of 2,000 unrolls 100 are looked at: one in ten is kept, of as many steps."""
    memory = open_memory(tmp_path, capacity=2000, share=0.0, looking=LOOKING)
    assert memory.capacity == 200
    for first in range(0, 3000, UNROLLS):
        memory.keep(unrolls_numbered(first))
    left = np.asarray(remembered(memory))
    assert len(left) == len(set(left)) == 200
    first = left.min()
    assert 500 < first < 1500
    assert kstest((left - first) / (3000 - first), "uniform").pvalue > 0.05
    saved = memory.snapshot()
    again = open_memory(tmp_path, capacity=2000, share=0.0, looking=LOOKING)
    again.restore(saved, None)
    both = [each.accumulate_gradient(0) for each in (memory, again)]
    jax.tree.map(np.testing.assert_array_equal, *both)


def test_of_a_short_visit_all_is_kept(tmp_path):
    """Of 150 unrolls 100 are looked at, however many there would be room for."""
    looking = Looking(gradient_batches=100, shortest=150)
    memory = open_memory(tmp_path, capacity=2000, share=0.0, looking=looking)
    for first in range(0, 150, UNROLLS):
        memory.keep(unrolls_numbered(first))
    assert remembered(memory) == [*range(150)]


def test_what_is_drawn_was_kept_and_is_drawn_again_after_a_resume(tmp_path):
    memory = open_memory(tmp_path, capacity=6)
    kept, known = memory.sample()
    assert not known.any()
    assert not any(leaf.any() for leaf in jax.tree.leaves(kept))
    for first in (0, 3, 6):
        memory.keep(unrolls_numbered(first))
    saved = memory.snapshot()
    render_frame, known = memory.sample()
    assert known.all()
    jax.tree.map(
        np.testing.assert_array_equal, render_frame, unrolls_of(render_frame.task[0])
    )
    assert len(set(render_frame.task[0].tolist())) == UNROLLS
    memory.close()
    again = open_memory(tmp_path, capacity=6)
    again.restore(saved, None)
    jax.tree.map(np.testing.assert_array_equal, again.previous_step()[0], render_frame)


def chunk_of(memory, rollouts, number):
    """Let a chunk pass; return what a checkpoint is, and what it remembers."""
    for _ in range(rollouts):
        memory.keep(unrolls_numbered(number))
        number += UNROLLS
    saved = memory.snapshot()
    memory.saved()
    return saved, remembered(memory)


def most_bytes(capacity, rollouts, in_flight=IN_FLIGHT):
    slots = capacity + in_flight * min(rollouts * UNROLLS, capacity)
    return slots * SIZE


@given(
    st.lists(st.integers(1, 5), min_size=3, max_size=8),
    st.sampled_from(["newest", "any"]),
    st.integers(3, 9),
    st.sampled_from([IN_FLIGHT, 5]),
)
def test_checkpoints_find_all_that_they_remember(
    tmp_path_factory, chunks, keep, capacity, in_flight
):
    """However the run is killed in the chunk after them; and the file stays small.

    All but the two oldest of those in flight may not be saved yet.
    """
    folder = tmp_path_factory.mktemp("memory")
    memory = open_memory(folder, capacity, keep, in_flight=in_flight)
    number, checkpoints = 0, []
    for rollouts in chunks:
        checkpoints.append(chunk_of(memory, rollouts, number))
        number += rollouts * UNROLLS
    for _ in range(3):  # the chunk in which it is killed
        memory.keep(unrolls_numbered(number))
        number += UNROLLS
    memory.close()
    for saved, expected in checkpoints[-in_flight:]:
        again = open_memory(folder, capacity, keep)
        again.restore(saved, None)
        assert remembered(again) == expected
        again.close()
    most = most_bytes(capacity, max(*chunks, 3), in_flight)
    assert (folder / "memories.bin").stat().st_size <= most


@pytest.mark.parametrize("keep", ["newest", "any"])
def test_a_run_that_is_killed_again_and_again_needs_no_more_room(tmp_path, keep):
    older = newer = None
    memory, number = open_memory(tmp_path, capacity=6, keep=keep), 0
    for _ in range(12):
        for _ in range(2):
            older, newer = newer, chunk_of(memory, 2, number)
            number += 2 * UNROLLS
        memory.keep(unrolls_numbered(number))
        memory.close()
        memory = open_memory(tmp_path, capacity=6, keep=keep)
        memory.restore(newer[0], older[0])
        assert remembered(memory) == newer[1]
        number = memory._added
        spared = open_memory(tmp_path, capacity=6, keep=keep)
        spared.restore(older[0], None)
        assert remembered(spared) == older[1]
    size = (tmp_path / "memories.bin").stat().st_size
    assert size <= most_bytes(6, rollouts=2)


def test_what_could_not_be_written_is_in_no_checkpoint(tmp_path, monkeypatch):
    memory = open_memory(tmp_path)
    monkeypatch.setattr("os.pwrite", lambda *_: 0)
    memory.keep(unrolls_numbered(0))
    with pytest.raises(PersonaeError, match=r"memories\.bin: No space left"):
        memory.snapshot()


def test_the_newest_are_those_of_the_visit(tmp_path):
    """A new task is not looked at through the eyes of the one before."""
    memory = open_memory(tmp_path, capacity=9)
    for first in (0, 3):
        memory.keep(unrolls_numbered(first))
    memory.begin_visit()
    assert not memory.sample()[1].any()
    memory.keep(unrolls_numbered(6))
    for _ in range(5):
        kept, known = memory.sample()
        assert known.all()
        assert set(kept.task[0]) == {6, 7, 8}
    assert set(memory.accumulate_gradient(0).task[0]) == {6, 7, 8}
    saved = memory.snapshot()
    memory.close()
    again = open_memory(tmp_path, capacity=9)
    again.restore(saved, None)
    assert set(again.accumulate_gradient(1).task[0]) == {6, 7, 8}


def test_a_fair_sample_is_of_all_visits(tmp_path):
    memory = open_memory(tmp_path, capacity=9, keep="any")
    memory.keep(unrolls_numbered(0))
    memory.begin_visit()
    kept, known = memory.sample()
    assert known.all()
    assert set(kept.task[0]) == {0, 1, 2}


def test_more_than_the_disk_holds_is_refused(tmp_path, monkeypatch):
    replay = ReplaySpec(1000 * LENGTH, "newest")
    folder = tmp_path / "replay"
    free = SimpleNamespace(free=1100 * SIZE - 1)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: free)
    check_disk_space(folder, replay, FORM, 33, IN_FLIGHT)  # 1000 + 3 * 33 slots
    with pytest.raises(UsageError, match=r"remember 5000 frames .* GB are free"):
        check_disk_space(folder, replay, FORM, 34, IN_FLIGHT)
    assert not folder.exists()
    # What is there already counts: a run that goes on needs no second store.
    folder.mkdir()
    (folder / "memories.bin").write_bytes(bytes(1000 * SIZE))
    free.free = 200 * SIZE
    check_disk_space(folder, replay, FORM, 34, IN_FLIGHT)
    # Of what is for looking back 1 in 10 is kept, and of each chunk: 100 + 3 * 15.
    free.free = 145 * SIZE
    looking = Looking(50, 5000)
    check_disk_space(tmp_path / "other", replay, FORM, 150, IN_FLIGHT, looking)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("unroll_length", 20, "unroll_length is 5, this run's is 20"),
        ("seeds", [3], r"seeds is \[0, 1\], this run's is \[3\]"),
    ],
)
def test_memories_of_another_run_are_refused(tmp_path, field, value, message):
    open_memory(tmp_path).close()
    with pytest.raises(PersonaeError, match=f"of another run: their {message}"):
        open_memory(tmp_path, owner=OWNER | {field: value})


def test_damaged_memories_are_named(tmp_path):
    memory = open_memory(tmp_path)
    memory.keep(unrolls_numbered(0))
    saved = memory.snapshot()
    memory.close()
    with open(tmp_path / "memories.bin", "r+b") as file:
        file.truncate(2 * SIZE)
    again = open_memory(tmp_path)
    again.restore(saved, None)
    with pytest.raises(PersonaeError, match=r"memories\.bin is shorter"):
        remembered(again)
    (tmp_path / "memories.json").write_text("{")
    with pytest.raises(PersonaeError, match=r"memories\.json cannot be read"):
        open_memory(tmp_path)


def test_what_is_written_is_plain_numbers(tmp_path):
    """A form in JSON, and records of nothing but arrays."""
    open_memory(tmp_path).close()
    form = json.loads((tmp_path / "memories.json").read_text())["form"]
    assert form == [f"{x.dtype}{list(x.shape)}" for x in jax.tree.leaves(FORM)]
