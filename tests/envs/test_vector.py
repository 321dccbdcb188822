"""Gymnasium environments side by side: episodes follow each other and repeat."""

import numpy as np
import pytest
from counter_env import Counter

from personae.envs.adapters.gymnasium import make_env
from personae.envs.episode_stats import EpisodeStats
from personae.envs.vector import SeededEnvs, success_in


def seed_of(slot, episode):
    return 100 * slot + episode


@pytest.mark.parametrize("cut", [False, True])
def test_next_episode_starts_in_the_step_that_ends_one(cut):
    envs = SeededEnvs(lambda: Counter(cut), 2, seed_of, "sync")
    assert envs.start().ravel().tolist() == [0, 0]
    steps = [envs.step(np.array([1, 0])) for _ in range(4)]
    assert [s.observations[0, 0] for s in steps] == [1, 2, 0, 1]
    assert [s.next_observations[0, 0] for s in steps] == [1, 2, 3, 1]
    assert [bool(s.terminated[0]) for s in steps] == [False, False, not cut, False]
    assert [bool(s.truncated[0]) for s in steps] == [False, False, cut, False]
    assert all(s.valid.all() for s in steps)
    assert [s.rewards.tolist() for s in steps] == [[1.0, 0.0]] * 4
    assert envs.episodes.tolist() == [1, 1]


@pytest.mark.parametrize("stepping", ["sync", "async"])
def test_environments_are_restored_from_seeds_and_actions(stepping):
    def make():
        return make_env("CartPole-v1", {})

    envs = SeededEnvs(make, 3, seed_of, stepping)
    envs.start()
    random = np.random.default_rng(0)
    for _ in range(45):  # several episodes, of different lengths
        step = envs.step(random.integers(0, 2, 3))
    assert len({len(log) for log in envs.actions}) > 1
    copies = SeededEnvs(make, 3, seed_of, stepping)
    copies.start()
    stats = EpisodeStats(3)
    observations = copies.repeat(envs.episodes, envs.actions, stats)
    np.testing.assert_array_equal(observations, step.observations)
    assert stats.returns.tolist() == [len(log) for log in envs.actions]
    for _ in range(20):
        actions = random.integers(0, 2, 3)
        expected, actual = envs.step(actions), copies.step(actions)
        np.testing.assert_array_equal(actual.observations, expected.observations)
        np.testing.assert_array_equal(actual.terminated, expected.terminated)
    envs.close()
    copies.close()


def test_episodes_of_one_slot_differ_and_repeat_with_their_seed():
    starts = []
    for _ in range(2):
        envs = SeededEnvs(lambda: make_env("CartPole-v1", {}), 2, seed_of, "sync")
        observations = [envs.start()]
        for _ in range(40):
            step = envs.step(np.zeros(2, np.int64))
            if step.terminated[0]:
                observations.append(step.observations)
        starts.append(np.stack(observations)[:, 0])
    np.testing.assert_array_equal(*starts)
    assert len(np.unique(starts[0], axis=0)) == len(starts[0]) > 2


def test_success_is_read_from_the_infos_that_hold_it():
    assert success_in({}) is None
    info = {"success": np.array([1.0, 0.0, 1.0])}
    assert success_in(info).tolist() == [True, False, True]
    marked = info | {"_success": np.array([True, True, False])}
    assert success_in(marked).tolist() == [True, False, False]
