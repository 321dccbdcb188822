"""The replay store: which unrolls it holds, where on disk, and after a crash."""

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
from personae.runs.replay import (
    GradientSampling,
    ReplayRecord,
    ReplayStore,
    check_disk_space,
)
from personae.types import Rollout, Transition

LENGTH, AGENTS, UNROLLS = 5, 2, 3
SAMPLING = GradientSampling(unrolls=100, shortest_visit=3000)
IN_FLIGHT = 3
"""Chunks: two that are checkpoints, and one that is being evaluated and saved."""
OWNER = {"method": "clear", "seeds": [0, 1], "unroll_length": LENGTH}


def unrolls_numbered(first, number=UNROLLS):
    """Return unrolls, `[agent, unroll, ...]`, that contain their numbers."""
    numbers = np.arange(first, first + number)
    marks = numbers + 1000 * np.arange(AGENTS)[:, None]
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


def shape_of_one(leaf):
    return jax.ShapeDtypeStruct((leaf.shape[0], *leaf.shape[2:]), leaf.dtype)


FORM = jax.tree.map(shape_of_one, unrolls_numbered(0))
SIZE = sum(np.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(FORM))


def open_store(
    folder,
    capacity=4,
    keep="newest",
    share=1.0,
    owner=OWNER,
    in_flight=IN_FLIGHT,
    sampling=None,
):
    replay = ReplaySpec(capacity * LENGTH, keep, share=share)
    return ReplayStore(folder, replay, FORM, UNROLLS, owner, in_flight, sampling)


def numbers_in(store):
    """Return the numbers of all unrolls in it, in order."""
    slots = store._slots
    record = store._worker.submit(store._file.read, slots).result()
    jax.tree.map(np.testing.assert_array_equal, record, unrolls_of(record.task[0]))
    return sorted(record.task[0].tolist())


def unrolls_of(numbers):
    records = [unrolls_numbered(number, 1) for number in numbers]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *records)


def test_the_newest_unrolls_are_stored_unchanged(tmp_path):
    store = open_store(tmp_path)
    for first in (0, 3, 6, 9):
        store.add(unrolls_numbered(first))
    assert numbers_in(store) == [8, 9, 10, 11]


def test_all_unrolls_are_equally_likely_to_be_stored(tmp_path):
    """The numbers of the stored unrolls are uniform over all that were added."""
    store = open_store(tmp_path, capacity=200, keep="any", share=0.0)
    assert store.capacity == 200
    for first in range(0, 3000, UNROLLS):
        store.add(unrolls_numbered(first))
    stored = np.asarray(numbers_in(store))
    assert len(stored) == len(set(stored)) == 200
    assert kstest(stored / 3000, "uniform").pvalue > 0.05


def test_a_store_that_serves_a_gradient_holds_a_sample(tmp_path):
    """The gradient takes 100 of 2,000 unrolls: one in ten is stored."""
    store = open_store(tmp_path, capacity=2000, share=0.0, sampling=SAMPLING)
    assert store.capacity == 200
    for first in range(0, 3000, UNROLLS):
        store.add(unrolls_numbered(first))
    stored = np.asarray(numbers_in(store))
    assert len(stored) == len(set(stored)) == 200
    first = stored.min()
    assert 500 < first < 1500
    assert kstest((stored - first) / (3000 - first), "uniform").pvalue > 0.05
    saved = store.snapshot()
    again = open_store(tmp_path, capacity=2000, share=0.0, sampling=SAMPLING)
    again.restore(saved, None)
    both = [s.sample_for_gradient(0) for s in (store, again)]
    jax.tree.map(np.testing.assert_array_equal, *both)


def test_all_unrolls_of_a_short_visit_are_stored(tmp_path):
    """The gradient takes 100 of 150 unrolls, however many there is room for."""
    sampling = GradientSampling(unrolls=100, shortest_visit=150)
    store = open_store(tmp_path, capacity=2000, share=0.0, sampling=sampling)
    for first in range(0, 150, UNROLLS):
        store.add(unrolls_numbered(first))
    assert numbers_in(store) == [*range(150)]


def test_a_sample_is_of_stored_unrolls_and_the_same_after_a_resume(tmp_path):
    store = open_store(tmp_path, capacity=6)
    record, exist = store.sample()
    assert not exist.any()
    assert not any(leaf.any() for leaf in jax.tree.leaves(record))
    for first in (0, 3, 6):
        store.add(unrolls_numbered(first))
    saved = store.snapshot()
    sampled, exist = store.sample()
    assert exist.all()
    jax.tree.map(np.testing.assert_array_equal, sampled, unrolls_of(sampled.task[0]))
    assert len(set(sampled.task[0].tolist())) == UNROLLS
    store.close()
    again = open_store(tmp_path, capacity=6)
    again.restore(saved, None)
    jax.tree.map(np.testing.assert_array_equal, again.sample()[0], sampled)


def chunk_of(store, rollouts, number):
    """Let a chunk pass; return its snapshot and the numbers in the store."""
    for _ in range(rollouts):
        store.add(unrolls_numbered(number))
        number += UNROLLS
    saved = store.snapshot()
    store.release_slots()
    return saved, numbers_in(store)


def most_bytes(capacity, rollouts, in_flight=IN_FLIGHT):
    slots = capacity + in_flight * min(rollouts * UNROLLS, capacity)
    return slots * SIZE


@given(
    st.lists(st.integers(1, 5), min_size=3, max_size=8),
    st.sampled_from(["newest", "any"]),
    st.integers(3, 9),
    st.sampled_from([IN_FLIGHT, 5]),
)
def test_checkpoints_find_all_their_records(
    tmp_path_factory, chunks, keep, capacity, in_flight
):
    """However the run is killed in the chunk after them; and the file stays small.

    All but the two oldest of those in flight may not be saved yet.
    """
    folder = tmp_path_factory.mktemp("store")
    store = open_store(folder, capacity, keep, in_flight=in_flight)
    number, checkpoints = 0, []
    for rollouts in chunks:
        checkpoints.append(chunk_of(store, rollouts, number))
        number += rollouts * UNROLLS
    for _ in range(3):  # the chunk in which it is killed
        store.add(unrolls_numbered(number))
        number += UNROLLS
    store.close()
    for saved, expected in checkpoints[-in_flight:]:
        again = open_store(folder, capacity, keep)
        again.restore(saved, None)
        assert numbers_in(again) == expected
        again.close()
    most = most_bytes(capacity, max(*chunks, 3), in_flight)
    assert (folder / "records.bin").stat().st_size <= most


@pytest.mark.parametrize("keep", ["newest", "any"])
def test_a_run_that_is_killed_again_and_again_needs_no_more_room(tmp_path, keep):
    older = newer = None
    store, number = open_store(tmp_path, capacity=6, keep=keep), 0
    for _ in range(12):
        for _ in range(2):
            older, newer = newer, chunk_of(store, 2, number)
            number += 2 * UNROLLS
        store.add(unrolls_numbered(number))
        store.close()
        store = open_store(tmp_path, capacity=6, keep=keep)
        store.restore(newer[0], older[0])
        assert numbers_in(store) == newer[1]
        number = store._added
        spared = open_store(tmp_path, capacity=6, keep=keep)
        spared.restore(older[0], None)
        assert numbers_in(spared) == older[1]
    size = (tmp_path / "records.bin").stat().st_size
    assert size <= most_bytes(6, rollouts=2)


def test_no_checkpoint_refers_to_a_failed_write(tmp_path, monkeypatch):
    store = open_store(tmp_path)
    monkeypatch.setattr("os.pwrite", lambda *_: 0)
    store.add(unrolls_numbered(0))
    with pytest.raises(PersonaeError, match=r"records\.bin: No space left"):
        store.snapshot()


def test_the_newest_unrolls_are_those_of_the_visit(tmp_path):
    """A new task does not sample the experience of the one before."""
    store = open_store(tmp_path, capacity=9)
    for first in (0, 3):
        store.add(unrolls_numbered(first))
    store.begin_visit()
    assert not store.sample()[1].any()
    store.add(unrolls_numbered(6))
    for _ in range(5):
        record, exist = store.sample()
        assert exist.all()
        assert set(record.task[0]) == {6, 7, 8}
    assert set(store.sample_for_gradient(0).task[0]) == {6, 7, 8}
    saved = store.snapshot()
    store.close()
    again = open_store(tmp_path, capacity=9)
    again.restore(saved, None)
    assert set(again.sample_for_gradient(1).task[0]) == {6, 7, 8}


def test_a_fair_sample_is_of_all_visits(tmp_path):
    store = open_store(tmp_path, capacity=9, keep="any")
    store.add(unrolls_numbered(0))
    store.begin_visit()
    record, exist = store.sample()
    assert exist.all()
    assert set(record.task[0]) == {0, 1, 2}


def test_more_than_the_disk_holds_is_refused(tmp_path, monkeypatch):
    replay = ReplaySpec(1000 * LENGTH, "newest")
    folder = tmp_path / "replay"
    free = SimpleNamespace(free=1100 * SIZE - 1)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: free)
    check_disk_space(folder, replay, FORM, 33, IN_FLIGHT)  # 1000 + 3 * 33 slots
    with pytest.raises(UsageError, match=r"store 5000 frames .* GB are free"):
        check_disk_space(folder, replay, FORM, 34, IN_FLIGHT)
    assert not folder.exists()
    # What is there already counts: a run that goes on needs no second store.
    folder.mkdir()
    (folder / "records.bin").write_bytes(bytes(1000 * SIZE))
    free.free = 200 * SIZE
    check_disk_space(folder, replay, FORM, 34, IN_FLIGHT)
    # A gradient alone needs 1 in 10 unrolls, also of each chunk: 100 + 3 * 15.
    free.free = 145 * SIZE
    sampling = GradientSampling(50, 5000)
    check_disk_space(tmp_path / "other", replay, FORM, 150, IN_FLIGHT, sampling)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("unroll_length", 20, "unroll_length is 5, this run's is 20"),
        ("seeds", [3], r"seeds is \[0, 1\], this run's is \[3\]"),
    ],
)
def test_the_store_of_another_run_is_refused(tmp_path, field, value, message):
    open_store(tmp_path).close()
    with pytest.raises(PersonaeError, match=f"belongs to another run: its {message}"):
        open_store(tmp_path, owner=OWNER | {field: value})


def test_a_damaged_store_is_named(tmp_path):
    store = open_store(tmp_path)
    store.add(unrolls_numbered(0))
    saved = store.snapshot()
    store.close()
    with open(tmp_path / "records.bin", "r+b") as file:
        file.truncate(2 * SIZE)
    again = open_store(tmp_path)
    again.restore(saved, None)
    with pytest.raises(PersonaeError, match=r"records\.bin is shorter"):
        numbers_in(again)
    (tmp_path / "records.json").write_text("{")
    with pytest.raises(PersonaeError, match=r"records\.json cannot be read"):
        open_store(tmp_path)


def test_files_hold_plain_numbers(tmp_path):
    """A form in JSON, and records of nothing but arrays."""
    open_store(tmp_path).close()
    form = json.loads((tmp_path / "records.json").read_text())["form"]
    assert form == [f"{x.dtype}{list(x.shape)}" for x in jax.tree.leaves(FORM)]
