"""One environment of EnvPool, if it is there."""

import numpy as np
import pytest

from personae.envs.adapters.envpool import EnvPoolEnv

pytest.importorskip("envpool")
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")  # its own


def play(env, steps=30):
    rng = np.random.default_rng(0)
    answers = [env.reset(seed=4)[0]]
    for _ in range(steps):
        shown, reward, *ends, info = env.step(rng.integers(2))
        answers.append(np.append(shown, [reward, *ends]))
        assert info == {}
    return answers


def test_it_is_one_environment_that_a_seed_repeats():
    env = EnvPoolEnv("CartPole-v1", {})
    assert env.observation_space.shape == (4,)
    first, second = play(env), play(env)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert first[0].shape == (4,)
    assert not np.array_equal(env.reset(seed=5)[0], first[0])
    env.close()


def test_it_draws_pictures():
    env = EnvPoolEnv("CartPole-v1", {}, render_mode="rgb_array")
    env.reset(seed=1)
    picture = env.render()
    assert picture.ndim == 3
    assert picture.dtype == np.uint8
    assert picture.std() > 0
    env.close()
