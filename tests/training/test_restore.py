"""Agents restored from disk act as they did in their run."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from personae.curricula import Evaluation
from personae.errors import PersonaeError, UsageError
from personae.files import read_tensors
from personae.report import side_by_side
from personae.rollouts.evaluation import EvaluationResult
from personae.runs.checkpoints import Checkpoints
from personae.runs.directory import RunDirectory
from personae.training import RestoredRun


@pytest.fixture(scope="module")
def restored(baselines):
    """PackNet's agents, which differ from each other and from visit to visit."""
    record = baselines["packnet"]
    at_the_end = record.evaluations[:, -1]
    assert (at_the_end[0] != at_the_end[1]).any()
    assert at_the_end.any()
    return RestoredRun(record.directory)


@pytest.mark.parametrize("method", ["mask-blc", "ewc-mh", "packnet"])
def test_restored_agents_are_those_of_the_last_visit(lives, baselines, method):
    record = (lives | baselines)[method]
    restored = RestoredRun(record.directory)
    exported = restored.training.programs.export(restored.agents)
    last = RunDirectory(record.directory).mask_file(3, record.training[3].task)
    saved, _ = read_tensors(last)
    assert exported.keys() == saved.keys()
    for name, array in saved.items():
        np.testing.assert_array_equal(exported[name], array)


def test_evaluation_equals_that_at_the_end_of_the_run(baselines, restored):
    returns = restored.evaluate().returns
    assert returns.shape == (2, 4, 3)
    expected = baselines["packnet"].evaluations[:, -1]
    np.testing.assert_array_equal(returns.mean(-1), expected)


def test_a_stopped_run_is_restored_from_its_last_checkpoint(lives, tmp_path):
    shutil.copytree(lives["mask-ri"].directory, tmp_path / "run")
    whole = RestoredRun(tmp_path / "run").agents.train.trainable.scores.trunk[0].weight
    (tmp_path / "run" / "checkpoints" / "chunk-000008.safetensors").unlink()
    before = RestoredRun(tmp_path / "run").agents.train.trainable.scores.trunk[0].weight
    tensors, _ = read_tensors(tmp_path / "run/checkpoints/chunk-000007.safetensors")
    (stored,) = [a for n, a in tensors.items() if "trainable.scores.trunk[0]" in n]
    np.testing.assert_array_equal(before, stored)
    assert (before != whole).any()


def test_a_checkpoint_may_disappear_while_it_is_read(lives, tmp_path, monkeypatch):
    """A run that is still training drops a checkpoint after saving the next one."""
    shutil.copytree(lives["mask-ri"].directory, tmp_path / "run")
    load, attempts = Checkpoints.load, []

    def drop_then_load(self, position, *shapes):
        attempts.append(position.total_chunks)
        if len(attempts) == 1:
            newest = tmp_path / "run" / "checkpoints" / "chunk-000008.safetensors"
            newest.unlink()
        return load(self, position, *shapes)

    monkeypatch.setattr(Checkpoints, "load", drop_then_load)
    assert RestoredRun(tmp_path / "run").agents is not None
    assert attempts == [8, 7]


def test_sampled_actions_and_other_numbers_of_episodes(restored):
    returns = restored.evaluate(Evaluation(episodes=40, greedy=False)).returns
    assert returns.shape == (2, 4, 40)
    assert 0 < returns.mean() < 1


@pytest.mark.parametrize("seed", [0, 1])
def test_a_film_is_the_episode_that_was_evaluated(baselines, restored, seed):
    returns = baselines["packnet"].evaluations[seed, -1]
    films = [restored.film(task.name, seed) for task in restored.tasks]
    np.testing.assert_array_equal([film.total for film in films], returns)
    for film, task, collected in zip(films, restored.tasks, returns, strict=True):
        assert film.whole
        if collected:  # home, a wait and a decision at each level, wait, leaf
            assert len(film.frames) - 1 == 2 * task.options["depth"] + 3
        assert (film.frames[0] != film.frames[1]).any()


def test_films_side_by_side_by_hand():
    def film(length, shape, first):
        return [np.full((*shape, 3), first + n, np.uint8) for n in range(length)]

    films = [film(2, (100, 200), 10), film(3, (200, 200), 50)]
    sheets = side_by_side(films)
    assert len(sheets) == 3
    assert sheets[0].shape == (292, 2 * 292, 3)
    # Both are 288 wide, the first 144 high; what lies below it is white.
    assert [int(sheet[70, 30, 0]) for sheet in sheets] == [10, 11, 11]
    assert [int(sheet[280, 400, 0]) for sheet in sheets] == [50, 51, 52]
    assert (sheets[0][144:, :292] == 255).all()
    ten = side_by_side([film(1, (300, 300), 0)] * 10)
    assert ten[0].shape == (2 * 148, 5 * 148, 3)


def test_the_command_shows_a_table_and_writes_films(lives, tmp_path, personae_command):
    run = tmp_path / "run"
    shutil.copytree(lives["mask-blc"].directory, run)
    words = ("evaluate", run, "--episodes", 2, "--video", "--tasks", "d1-0, d2-00,")
    code, output, errors = personae_command(*words)
    assert code == 0, errors
    assert "2 agents, episodes on each task: 2" in output
    assert sorted(path.name for path in (run / "videos").iterdir()) == [
        "all.gif",
        "d1-0.gif",
        "d2-00.gif",
    ]
    with Image.open(run / "videos" / "d1-0.gif") as film:
        assert film.n_frames > 2
        assert film.size == (720, 480)
    RunDirectory(run).clear()  # as --overwrite does
    assert not list((run / "videos").iterdir())


@pytest.mark.parametrize("in_run", [True, False])
def test_the_command_acts_as_the_run_did_by_default(
    in_run, lives, personae_command, monkeypatch
):
    choices = []

    class Other(RestoredRun):
        def __init__(self, directory):
            super().__init__(directory)
            curriculum = self.config.curriculum
            evaluation = replace(curriculum.evaluation, greedy=in_run)
            curriculum = replace(curriculum, evaluation=evaluation)
            self.config = replace(self.config, curriculum=curriculum)

        def evaluate(self, protocol):
            choices.append(protocol.greedy)
            return EvaluationResult(np.zeros((2, len(self.tasks), 1)), None, None)

    monkeypatch.setattr("personae.cli.evaluate.RestoredRun", Other)
    for words in ([], ["--acting", "greedy"], ["--acting", "sample"]):
        run = lives["mask-blc"].directory
        code, _, errors = personae_command("evaluate", run, *words)
        assert code == 0, errors
    assert choices == [in_run, True, False]


def test_missing_runs_tasks_and_seeds_are_named(restored, lives, tmp_path):
    with pytest.raises(UsageError, match="Did you mean 'd2-00'"):
        restored.film("d2-0")
    with pytest.raises(UsageError, match="'7'"):
        restored.film("d1-0", seed=7)
    with pytest.raises(PersonaeError, match="holds no readable run"):
        RestoredRun(tmp_path)
    (tmp_path / "run").mkdir()
    shutil.copy(lives["mask-lc"].directory / "run.json", tmp_path / "run")
    with pytest.raises(PersonaeError, match="no checkpoint yet"):
        RestoredRun(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("method", "mask-xy", "mask-xy"),
        ("seeds", [], "one or more different numbers"),
        ("seeds", [-1, 0], r"0\.\.2\*\*32-1, not \[-1\]"),
        ("seeds", "many", "expected a list"),
    ],
)
def test_an_invalid_run_is_refused(lives, tmp_path, name, value, message):
    run = json.loads((lives["mask-lc"].directory / "run.json").read_text())
    run["config"][name] = value
    (tmp_path / "run.json").write_text(json.dumps(run))
    with pytest.raises(UsageError, match=message):
        RestoredRun(tmp_path)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--video", "--tasks", "d1-0,nope"), "nope"),
        (("--tasks", "d1-0"), "--video"),
        (("--seed", "1"), "--video"),
    ],
)
def test_invalid_film_options_are_refused_before_evaluation(
    lives, personae_command, flags, message
):
    directory = lives["mask-blc"].directory
    code, output, errors = personae_command("evaluate", directory, *flags)
    assert code == 2
    assert message in errors
    assert not output
    assert not (directory / "videos").exists()
