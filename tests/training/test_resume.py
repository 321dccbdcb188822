"""Interrupted runs end bit-identical to uninterrupted ones."""

import dataclasses
import shutil

import numpy as np
import pytest

import personae
from personae.errors import PersonaeError, UsageError
from personae.runs.checkpoints import flatten, unflatten
from personae.runs.directory import RunDirectory
from personae.runs.progress import make_reporter
from personae.training.config import RunConfig
from personae.training.loop import start


@pytest.mark.parametrize("stops", [[1], [2, 1], [3, 3]])
def test_a_resumed_run_ends_bit_identical(
    tiny, lives, tmp_path, stops, stop_after, assert_same_run
):
    directory = RunDirectory(tmp_path)
    config = RunConfig(tiny, "mask-blc", (0, 1))
    for chunks in stops:
        with pytest.raises(KeyboardInterrupt):
            start(config, directory, stop_after(chunks), resume=True)
    start(config, directory, make_reporter(quiet=True), resume=True)
    assert_same_run(tmp_path, lives["mask-blc"].directory)


@pytest.mark.parametrize("method", ["mask-blc", "ewc-mh"])
def test_a_run_resumes_after_a_crash(
    tiny, lives, baselines, tmp_path, stop_after, assert_same_run, method
):
    """Records without a checkpoint are cut off; an unreadable checkpoint is skipped.

    The third chunk is the first of the second visit, so that resuming at the second
    one has to end the first visit again.
    """
    directory = RunDirectory(tmp_path)
    config = RunConfig(tiny, method, (0, 1))
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(3))
    newest = directory.checkpoints / "chunk-000003.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    directory.append_metrics([{"kind": "train", "visit": 99}])
    with open(directory.metrics_file, "ab") as file:
        file.write(b'{"kind":"tra')
    start(config, directory, make_reporter(quiet=True), resume=True)
    assert_same_run(tmp_path, (lives | baselines)[method].directory)


def test_agents_that_do_not_fill_the_devices_evenly_resume(
    tiny, tmp_path, stop_after, assert_same_run
):
    config = RunConfig(
        dataclasses.replace(tiny, tasks=tiny.tasks[:2]), "mask-lc", (4, 5, 6)
    )
    whole, stopped = (
        RunDirectory(tmp_path / "whole"),
        RunDirectory(tmp_path / "stopped"),
    )
    start(config, whole, make_reporter(quiet=True))
    with pytest.raises(KeyboardInterrupt):
        start(config, stopped, stop_after(3))
    start(config, stopped, make_reporter(quiet=True), resume=True)
    assert_same_run(stopped.root, whole.root)
    assert personae.read_record(whole.root).evaluations.shape[0] == 3


@pytest.fixture
def finished(lives, tmp_path):
    """A copy of a finished run: other workers may lock the original."""
    return shutil.copytree(lives["mask-ri"].directory, tmp_path / "finished")


def test_resuming_a_finished_run_changes_nothing(tiny, lives, finished):
    before = (finished / "run.json").read_bytes()
    again = personae.learn(
        tiny, "mask-ri", seeds=2, out=finished, resume=True, quiet=True
    )
    assert (finished / "run.json").read_bytes() == before
    np.testing.assert_array_equal(again.evaluations, lives["mask-ri"].evaluations)


def test_an_existing_run_is_refused_without_a_flag(tiny, finished):
    with pytest.raises(UsageError, match="already holds a run"):
        personae.learn(tiny, "mask-ri", out=finished)


def test_resuming_with_another_configuration_names_the_field(tiny, finished):
    other = dataclasses.replace(tiny, ppo=dataclasses.replace(tiny.ppo, epochs=3))
    with pytest.raises(UsageError, match=r"ppo\.epochs was 1 .* now it is 3"):
        personae.learn(other, "mask-ri", seeds=2, out=finished, resume=True)


@pytest.mark.slow
def test_overwrite_starts_again(tiny, tmp_path):
    short = dataclasses.replace(tiny, tasks=tiny.tasks[:1])
    (tmp_path / "notes.txt").write_text("mine")
    first = personae.learn(short, seeds=1, out=tmp_path, quiet=True)
    again = personae.learn(short, seeds=1, out=tmp_path, overwrite=True, quiet=True)
    np.testing.assert_array_equal(first.evaluations, again.evaluations)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_old_checkpoints_are_deleted(lives):
    files = RunDirectory(lives["mask-lc"].directory)
    names = sorted(path.name for path in files.checkpoints.iterdir())
    assert names == [
        "chunk-000007.safetensors",
        "chunk-000008.safetensors",
        "state-000004.safetensors",
        "state-000006.safetensors",
    ]


def test_a_checkpoint_of_other_shapes_is_refused(tmp_path):
    tree = {"a": np.zeros((2, 3), np.float32)}
    with pytest.raises(PersonaeError, match=r"float32\[4\], found float32\[2, 3\]"):
        unflatten({"a": np.zeros(4, np.float32)}, flatten(tree), tmp_path)
    with pytest.raises(PersonaeError, match="found nothing"):
        unflatten({"b": np.zeros(4, np.float32)}, flatten(tree), tmp_path)
