"""Agents brought back from disk do what they did."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from personae.curricula import Evaluation
from personae.errors import PersonaeError, UsageError
from personae.training import Revival


@pytest.fixture(scope="module")
def revived(lives):
    return Revival(lives["mask-blc"].directory)


@pytest.mark.parametrize("method", ["mask-blc", "ewc-mh", "packnet"])
def test_they_are_evaluated_as_at_the_end_of_their_run(lives, baselines, method):
    record = (lives | baselines)[method]
    returns = Revival(record.directory).evaluate()
    assert returns.shape == (2, 4, 3)
    np.testing.assert_array_equal(returns.mean(-1), record.evaluations[:, -1])


def test_a_run_that_was_stopped_is_played_from_its_last_checkpoint(lives, tmp_path):
    record = lives["mask-ri"]
    shutil.copytree(record.directory, tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "chunk-000008.safetensors").unlink()
    returns = Revival(tmp_path / "run").evaluate()
    np.testing.assert_array_equal(returns.mean(-1), record.evaluations[:, -2])


def test_sampled_actions_and_other_numbers_of_episodes(revived):
    returns = revived.evaluate(Evaluation(episodes=40, greedy=False))
    assert returns.shape == (2, 4, 40)
    assert 0 < returns.mean() < 1


def test_a_film_is_the_episode_that_was_evaluated(lives, revived):
    returns = lives["mask-blc"].evaluations[1, -1]
    films = [revived.film(task.name, seed=1) for task in revived.tasks]
    np.testing.assert_array_equal([film.total for film in films], returns)
    for film, task, collected in zip(films, revived.tasks, returns, strict=True):
        steps = len(film.frames) - 1
        if collected:  # home, a wait and a decision at each level, wait, leaf
            assert steps == 2 * task.options["depth"] + 3
        assert (film.frames[0] != film.frames[1]).any()


def test_the_command_shows_a_table_and_writes_films(lives, tmp_path, personae_command):
    run = tmp_path / "run"
    shutil.copytree(lives["mask-blc"].directory, run)
    words = ("evaluate", run, "--episodes", 2, "--video", "--tasks", "d1-0, d2-00")
    code, output, errors = personae_command(*words)
    assert code == 0, errors
    assert "2 episodes a task, 2 agents" in output
    assert sorted(path.name for path in (run / "videos").iterdir()) == [
        "d1-0.gif",
        "d2-00.gif",
    ]
    with Image.open(run / "videos" / "d1-0.gif") as film:
        assert film.n_frames > 2
        assert film.size == (720, 480)


def test_what_is_not_there_is_named(revived, lives, tmp_path, personae_command):
    with pytest.raises(UsageError, match="Did you mean 'd2-00'"):
        revived.film("d2-0")
    with pytest.raises(UsageError, match="'7'"):
        revived.film("d1-0", seed=7)
    with pytest.raises(PersonaeError, match="holds no readable run"):
        Revival(tmp_path)
    (tmp_path / "run").mkdir()
    shutil.copy(lives["mask-lc"].directory / "run.json", tmp_path / "run")
    with pytest.raises(PersonaeError, match="no checkpoint yet"):
        Revival(tmp_path / "run")
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    run["config"]["method"] = "mask-xy"
    (tmp_path / "run" / "run.json").write_text(json.dumps(run))
    code, _, errors = personae_command("evaluate", tmp_path / "run")
    assert code == 2
    assert "mask-xy" in errors
