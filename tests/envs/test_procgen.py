"""ProcGen's games, if the extra is installed."""

import sys
from importlib.metadata import PackageNotFoundError, PackagePath
from pathlib import Path

import numpy as np
import pytest

from personae.curricula import find_curriculum
from personae.envs.adapters import procgen
from personae.envs.adapters.envpool import SelfResettingEnvs, make_envpool
from personae.errors import PersonaeError

OPTIONS = {"num_levels": 200, "start_level": 0}


@pytest.fixture
def unloaded():
    """Clear the record that the libraries are loaded, before and after."""
    procgen.load_qt.cache_clear()
    yield
    procgen.load_qt.cache_clear()


def test_games_are_recognised_by_name():
    assert procgen.is_procgen("StarpilotEasy-v0")
    assert procgen.is_procgen("CoinrunHard-v0")
    assert not procgen.is_procgen("CrazyClimber-v5")
    assert not procgen.is_procgen("MetaWorld/FaucetClose-v3")


@pytest.fixture
def no_package(monkeypatch, unloaded):
    """Have the package PyQt5-Qt5 missing."""

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(procgen, "files", missing)


def test_libraries_of_the_system_suffice(monkeypatch, no_package):
    monkeypatch.setattr(procgen, "SYSTEM_LIBRARY", "libc.so.6")
    procgen.load_qt()


def test_libraries_of_the_system_replace_those_missing_in_the_package(
    monkeypatch, unloaded
):
    monkeypatch.setattr(procgen, "files", lambda name: [])
    monkeypatch.setattr(procgen, "SYSTEM_LIBRARY", "libc.so.6")
    procgen.load_qt()


def test_a_missing_extra_is_named(monkeypatch, no_package):
    monkeypatch.setattr(procgen, "SYSTEM_LIBRARY", "libnowhere.so.5")
    with pytest.raises(PersonaeError, match=r"personae\[procgen\]"):
        make_envpool("StarpilotEasy-v0", 1, 0, {})
    monkeypatch.setattr("personae.envs.adapters.envpool.load_qt", lambda: None)
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(PersonaeError, match=r"personae\[procgen\]"):
        make_envpool("StarpilotEasy-v0", 1, 0, {})


class Library(PackagePath):
    def locate(self):
        return Path(self)


def test_libraries_that_cannot_be_loaded_are_named(monkeypatch, tmp_path, unloaded):
    path = tmp_path / "libicudata.so.56"
    path.write_bytes(b"not a library")
    monkeypatch.setattr(procgen, "SYSTEM_LIBRARY", "libnowhere.so.5")
    monkeypatch.setattr(procgen, "files", lambda name: [Library(path)])
    with pytest.raises(
        PersonaeError, match=r"libicudata.so .*cannot be loaded.*libgl1"
    ):
        procgen.load_qt()
    monkeypatch.setattr(procgen, "files", lambda name: [])
    with pytest.raises(PersonaeError, match="PyQt5-Qt5 lacks"):
        procgen.load_qt()


def test_the_curriculum_is_the_published_one():
    curriculum = find_curriculum("procgen")
    names = [task.name for task in curriculum.tasks]
    assert names == [
        "climber",
        "dodgeball",
        "ninja",
        "starpilot",
        "bigfish",
        "fruitbot",
    ]
    assert sum(map(curriculum.steps_of, curriculum.visits)) == 150_000_000
    assert curriculum.steps_per_iteration * curriculum.evaluation.interval < 250_001
    assert all(task.options == OPTIONS for task in curriculum.tasks)


def make_games(seed=3, **options):
    pytest.importorskip("envpool")
    pytest.importorskip("PyQt5", reason="the libraries of Qt 5 are not installed")
    pool = make_envpool("FruitbotEasy-v0", 4, seed, OPTIONS | options)
    return SelfResettingEnvs(pool)


def test_games_are_images_and_reset_in_the_next_step():
    games = make_games()
    images = games.start()
    assert (images.shape, images.dtype) == ((4, 3, 64, 64), np.uint8)
    rng, ended_before, ends = np.random.default_rng(0), np.zeros(4, bool), 0
    for _ in range(300):
        games.send(rng.integers(0, 15, 4).astype(np.int32))
        step = games.receive()
        np.testing.assert_array_equal(step.valid, ~ended_before)
        assert (step.rewards[ended_before] == 0).all()
        ended_before = step.terminated | step.truncated
        ends += ended_before.sum()
    assert ends > 4
    games.close()


def test_a_start_in_the_middle_begins_new_episodes():
    """The seed alone decides which levels they have."""
    games, copies = make_games(), make_games()
    first = games.start()
    np.testing.assert_array_equal(first, copies.start())
    for _ in range(5):
        games.step(np.full(4, 7, np.int32))
    second = games.start()
    step = games.step(np.full(4, 4, np.int32))
    assert step.valid.all()
    assert second.shape == first.shape
    for envs in (games, copies):
        envs.close()
