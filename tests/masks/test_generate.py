import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from personae.masks.generate import (
    RULE_NAMES,
    bernoulli,
    continuous,
    make_rule,
    ternary,
    threshold,
    top_k,
)

SCORES = jnp.array([-0.2, -0.1, 0.0, 0.1, 0.3])


def gradient(rule, scores, key=None):
    weights = jnp.arange(1.0, scores.size + 1)
    return jax.grad(lambda s: jnp.sum(weights * rule(s, key)))(scores), weights


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (threshold(), [0, 0, 1, 1, 1]),
        (threshold(0.1), [0, 0, 0, 1, 1]),
        (continuous(), [0, 0, 0, 0.1, 0.3]),
        (continuous(0.2), [0, 0, 0, 0, 0.3]),
        (top_k(0.4), [0, 0, 0, 1, 1]),
        (ternary(), [-1, -1, 1, 1, 1]),
        (ternary(0.1), [-1, -1, 0, 1, 1]),
        (bernoulli(), [0, 0, 1, 1, 1]),
    ],
)
def test_masks_by_hand(rule, expected):
    np.testing.assert_array_equal(rule(SCORES, None), np.float32(expected))


@pytest.mark.parametrize("name", [n for n in RULE_NAMES if n != "bernoulli"])
def test_gradient_is_the_identity_everywhere(name):
    grads, weights = gradient(make_rule(name, epsilon=0.05), SCORES)
    np.testing.assert_array_equal(grads, weights)


def test_bernoulli_gradient_is_that_of_the_mean_mask():
    grads, weights = gradient(bernoulli(), SCORES, jax.random.key(0))
    p = 1 / (1 + np.exp(-np.asarray(SCORES)))
    np.testing.assert_allclose(grads, weights * p * (1 - p), rtol=1e-6)


def test_bernoulli_draws_with_probability_sigmoid():
    scores = jnp.full(20_000, 1.0)
    mask = bernoulli()(scores, jax.random.key(1))
    assert set(np.unique(mask)) == {0.0, 1.0}
    assert abs(float(mask.mean()) - 1 / (1 + np.exp(-1))) < 0.02


@settings(max_examples=50)
@given(
    arrays(np.float32, st.integers(1, 40), elements=st.sampled_from([-1, 0, 0.5, 1])),
    st.floats(0.01, 1),
)
def test_top_k_selects_exactly_its_share_even_among_equals(scores, density):
    mask = np.asarray(top_k(density)(jnp.asarray(scores), None))
    count = int(np.ceil(density * scores.size))
    assert mask.sum() == max(1, count)
    assert scores[mask == 1].min() >= scores[mask == 0].max(initial=-np.inf)


def test_top_k_refuses_an_impossible_density():
    with pytest.raises(ValueError, match=r"\(0, 1\], not 1.5"):
        top_k(1.5)
