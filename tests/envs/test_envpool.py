"""Environments that reset themselves, and those of EnvPool if it is installed."""

import numpy as np
import pytest
from counter_env import Counter
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from personae.envs.adapters.envpool import EnvPoolEnv, SelfResettingEnvs, make_envpool
from personae.errors import UsageError

# EnvPool's own spaces raise this warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")


def test_vector_environment_that_resets_in_the_same_step():
    env = SyncVectorEnv([Counter] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    envs = SelfResettingEnvs(env, seed=0)
    envs.start()
    steps = [envs.step(np.array([1, 1])) for _ in range(4)]
    assert [s.observations[0, 0] for s in steps] == [1, 2, 0, 1]
    assert [s.next_observations[0, 0] for s in steps] == [1, 2, 3, 1]
    assert all(s.valid.all() for s in steps)


def test_vector_environment_that_resets_in_the_next_step():
    env = SyncVectorEnv([Counter] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)
    envs = SelfResettingEnvs(env, seed=0)
    envs.start()
    steps = [envs.step(np.array([1, 1])) for _ in range(5)]
    assert [s.observations[0, 0] for s in steps] == [1, 2, 3, 0, 1]
    assert [s.valid.tolist() for s in steps] == [[True] * 2] * 3 + [
        [False] * 2,
        [True] * 2,
    ]
    assert steps[3].rewards.tolist() == [0.0, 0.0]


def test_unsound_environments_of_envpool_are_refused():
    pytest.importorskip("envpool")
    with pytest.raises(UsageError, match="its goal runs away"):
        make_envpool("MetaWorld/Hammer-v3", 1, 0, {})


def test_envpool_reports_the_success_of_robots():
    pytest.importorskip("envpool")
    options = {"max_episode_steps": 200, "partially_observable": False}
    envs = SelfResettingEnvs(make_envpool("MetaWorld/FaucetClose-v3", 2, 0, options))
    observations = envs.start()
    assert observations.shape == (2, 39)
    assert (np.abs(observations[:, -3:]) > 0).any()  # the goal
    step = envs.step(np.zeros((2, 4), np.float32))
    assert step.success.tolist() == [False, False]
    envs.close()


def test_envpool_resets_in_the_next_step():
    envpool = pytest.importorskip("envpool")
    env = envpool.make_gymnasium("CartPole-v1", num_envs=2, seed=3)
    envs = SelfResettingEnvs(env)  # EnvPool took the seed when it made them
    envs.start()
    steps = [envs.step(np.zeros(2, np.int32)) for _ in range(30)]
    ended = np.array([s.terminated for s in steps])
    valid = np.array([s.valid for s in steps])
    assert ended.any()
    np.testing.assert_array_equal(valid[1:], ~ended[:-1])
    # A start of CartPole is near zero, an end is not.
    for t, i in np.argwhere(ended[:-1]):
        assert np.abs(steps[t + 1].observations[i]).max() <= 0.05


def play(env, steps=30):
    rng = np.random.default_rng(0)
    answers = [env.reset(seed=4)[0]]
    for _ in range(steps):
        observation, reward, *ends, info = env.step(rng.integers(2))
        answers.append(np.append(observation, [reward, *ends]))
        assert info == {}
    return answers


def test_a_pool_of_one_repeats_with_its_seed():
    pytest.importorskip("envpool")
    env = EnvPoolEnv("CartPole-v1", {})
    assert env.observation_space.shape == (4,)
    first, second = play(env), play(env)
    for expected, actual in zip(first, second, strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert first[0].shape == (4,)
    assert not np.array_equal(env.reset(seed=5)[0], first[0])
    env.close()


def test_a_pool_of_one_draws_pictures():
    pytest.importorskip("envpool")
    env = EnvPoolEnv("CartPole-v1", {}, render_mode="rgb_array")
    env.reset(seed=1)
    picture = env.render()
    assert picture.ndim == 3
    assert picture.dtype == np.uint8
    assert picture.std() > 0
    env.close()
