"""Runs whose seeds were shared out are those of all seeds together."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from personae.errors import PersonaeError, UsageError
from personae.files import read_tensors
from personae.launch.jobs import Job
from personae.launch.ray_nodes import Room
from personae.launch.seed_groups import FOLDER, join, split
from personae.report import read_record
from personae.runs.directory import RunDirectory
from personae.runs.progress import make_reporter
from personae.training import RestoredRun
from personae.training.config import RunConfig
from personae.training.loop import start


@pytest.fixture
def job(tiny, tmp_path):
    return Job("mask-lc", RunConfig(tiny, "mask-lc", (0, 1, 2, 3)), tmp_path / "run")


def sizes(job, seeds, size):
    config = replace(job.config, seeds=tuple(range(seeds)))
    job = replace(job, config=config, out=job.out / f"{seeds}")
    return [len(group.config.seeds) for group in split(job, size)]


def test_groups_are_even_and_none_has_a_single_seed(job):
    assert sizes(job, 10, 4) == [4, 3, 3]
    assert sizes(job, 3, 2) == [3]
    assert sizes(job, 5, 1) == [3, 2]
    assert sizes(job, 1, 1) == [1]
    assert sizes(job, 4, 8) == [4]


def test_agents_that_end_tasks_together_stay_together(job):
    tasks = job.config.curriculum.tasks
    ending = (replace(tasks[0], stop_at=0.5), *tasks[1:])
    curriculum = replace(job.config.curriculum, tasks=ending)
    assert split(replace(job, config=replace(job.config, curriculum=curriculum)), 2)[
        0
    ].config.seeds == (0, 1, 2, 3)


def learn(job):
    start(job.config, RunDirectory(job.out), make_reporter(quiet=True))


def test_groups_put_together_are_the_run_of_all(job, tmp_path, assert_same_run):
    groups = split(job, 2)
    for group in groups:
        learn(group)
    join(job, groups)
    together = replace(job, out=tmp_path / "together")
    learn(together)
    ours, theirs = read_record(job.out), read_record(together.out)
    np.testing.assert_allclose(ours.evaluations, theirs.evaluations, rtol=1e-4)
    for path in sorted(RunDirectory(job.out).masks.iterdir()):
        found, told = read_tensors(path)
        expected, also = read_tensors(RunDirectory(together.out).masks / path.name)
        assert told == also
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-6)
    assert not (job.out.parent / FOLDER).exists()
    start(job.config, RunDirectory(job.out), make_reporter(quiet=True), resume=True)
    agents = RestoredRun(job.out).agents
    assert {len(leaf) for leaf in jax.tree.leaves(agents)} == {4}


def test_groups_stay_as_they_are_also_if_none_was_begun(job):
    assert split(job, 2) == split(job, 1) == split(job, 8)
    assert [group.config.seeds for group in split(job, 4)] == [(0, 1), (2, 3)]


def test_a_run_that_was_begun_in_one_piece_goes_on_in_one_piece(job):
    RunDirectory(job.out).write_run({"status": "running", "config": {}})
    assert split(job, 2) == [job]


def test_groups_of_other_seeds_are_refused(job):
    split(job, 2)
    config = replace(job.config, seeds=(0, 1, 2, 3, 4, 5))
    with pytest.raises(UsageError, match="a run with other seeds"):
        split(replace(job, config=config), 2)


@pytest.mark.slow
def test_a_run_appears_when_it_is_whole(job, monkeypatch):
    groups = split(job, 2)
    for group in groups:
        learn(group)

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RunDirectory, "write_run", die)
        with pytest.raises(KeyboardInterrupt):
            join(job, groups)
    assert not job.out.exists()
    join(job, split(job, 2))
    assert RunDirectory(job.out).finished


@pytest.mark.parametrize(
    ("cpus", "seeds", "runs", "size"),
    [((8,), 4, 2, 4), ((2, 2, 2, 2), 4, 2, 1), ((64, 64), 4, 2, 1), ((8, 8), 9, 1, 1)],
)
def test_seeds_stay_together_unless_cores_would_be_idle(job, cpus, seeds, runs, size):
    config = replace(job.config, seeds=tuple(range(seeds)))
    jobs = [replace(job, config=config)] * runs
    assert Room(cpus, gpus=False).group_size(jobs) == size
    assert Room(cpus, gpus=True).group_size(jobs) == seeds


@pytest.mark.slow
def test_groups_that_do_not_fit_are_named(job):
    groups = split(job, 2)
    for group in groups:
        learn(group)
    with RunDirectory(groups[1].out).metrics_file.open("a") as file:
        file.write(json.dumps({"kind": "train"}) + "\n")
    with pytest.raises(PersonaeError, match="cannot be put together"):
        join(job, groups)
