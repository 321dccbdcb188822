import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from personae.rollouts.normalise import Moments, Statistics

TASK = jnp.asarray(1)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(0, 10**6))
def test_moments_are_those_of_all_values_together(sizes, seed):
    random = np.random.default_rng(seed)
    moments, kept = Moments.empty(3, (2,)), []
    for size in sizes:
        values = random.normal(5, 3, (size, 2)).astype(np.float32)
        valid = random.random(size) < 0.7
        moments = moments.with_values(TASK, jnp.asarray(values), jnp.asarray(valid))
        kept.append(values[valid])
    every = np.concatenate(kept)
    assert moments.number.tolist() == [0, len(every), 0]
    if len(every):
        np.testing.assert_allclose(moments.mean[1], every.mean(0), rtol=1e-4)
        expected = np.sqrt(every.var(0) + 1e-6)
        np.testing.assert_allclose(moments.deviation(TASK), expected, atol=1e-2)
    assert not moments.mean[0].any()
    assert not moments.squares[2].any()


def test_rewards_are_divided_by_their_deviation_and_not_centred():
    nothing = Statistics(None, Moments.empty(2, ()))
    rewards = jnp.array([[1.0, 5.0], [3.0, 7.0]])
    seen = nothing.with_rewards(TASK, rewards, jnp.ones((2, 2), bool))
    expected = np.asarray(rewards) / np.sqrt(5 + 1e-6)
    np.testing.assert_allclose(seen.scale_rewards(TASK, rewards), expected, rtol=1e-6)
    np.testing.assert_array_equal(nothing.scale_rewards(TASK, rewards), rewards)


def test_a_task_that_was_never_trained_is_met_as_the_first():
    first = jnp.asarray(0)
    nothing = Statistics(Moments.empty(2, (1,)), None)
    seen = nothing.with_observations(
        first, jnp.array([[[2.0]], [[6.0]]]), jnp.ones((2, 1), bool)
    )
    for task in (first, TASK):
        np.testing.assert_allclose(seen.normalise(task, jnp.array([8.0])), 2, rtol=1e-4)
    later = seen.with_observations(
        TASK, jnp.array([[[0.0]], [[2.0]]]), jnp.ones((2, 1), bool)
    )
    np.testing.assert_allclose(later.normalise(TASK, jnp.array([8.0])), 7, rtol=1e-4)
    np.testing.assert_allclose(later.normalise(first, jnp.array([8.0])), 2, rtol=1e-4)
