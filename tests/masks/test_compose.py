import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personae.masks.compose import (
    COMPOSITIONS,
    compose,
    compose_layer,
    initial_coefficients,
    initial_logits,
    softmax_coefficients,
)


def first(k: int, slots: int):
    return jnp.arange(slots) < k


@pytest.mark.parametrize("k", [1, 2, 3, 7, 11])
def test_initial_weights_are_those_of_the_paper(k):
    active = first(k, slots=k)
    lc = initial_coefficients("lc", active)
    blc = initial_coefficients("blc", active)
    ri = initial_coefficients("ri", active)
    np.testing.assert_allclose(lc, np.full(k + 1, 1 / (k + 1)), rtol=1e-6)
    np.testing.assert_allclose(blc, [0.5 / k] * k + [0.5], rtol=1e-6)
    np.testing.assert_array_equal(ri, [0] * k + [1])


@pytest.mark.parametrize("rule", COMPOSITIONS)
def test_without_stored_masks_the_new_one_has_all_the_weight(rule):
    np.testing.assert_array_equal(initial_coefficients(rule, first(0, 2)), [0, 0, 1])


@settings(max_examples=40)
@given(st.integers(0, 8), st.lists(st.floats(-20, 20), min_size=9, max_size=9))
def test_coefficients_sum_to_one_and_leave_empty_slots_out(k, logits):
    coefficients = softmax_coefficients(jnp.array(logits), first(k, slots=8))
    assert abs(float(coefficients.sum()) - 1) < 1e-5
    assert not np.asarray(coefficients)[k:8].any()


@pytest.mark.parametrize("rule", ["lc", "blc"])
@pytest.mark.parametrize("k", [1, 5])
def test_softmax_of_the_initial_logits_gives_the_initial_weights(rule, k):
    active = first(k, slots=8)
    actual = softmax_coefficients(initial_logits(rule, active), active)
    np.testing.assert_allclose(actual, initial_coefficients(rule, active), atol=1e-7)


def test_composition_by_hand():
    scores = jnp.array([[1.0, -2.0]])
    stored = jnp.array([[[3.0, 5.0]], [[-1.0, 1.0]]])
    composed = compose_layer(scores, stored, jnp.array([0.25, 0.25, 0.5]))
    np.testing.assert_allclose(composed, [[1.0, 0.5]])


def test_empty_slots_change_nothing():
    key = jax.random.key(0)
    scores = {"a": jax.random.normal(key, (4, 3))}
    stored = {"a": jax.random.normal(key, (3, 4, 3))}
    padded = {"a": jnp.concatenate([stored["a"], jnp.full((5, 4, 3), 7.0)])}
    active, wide = first(3, slots=3), first(3, slots=8)
    small = compose(scores, stored, initial_logits("lc", active)[None], active)
    large = compose(scores, padded, initial_logits("lc", wide)[None], wide)
    np.testing.assert_allclose(small["a"], large["a"], atol=1e-6)


def test_gradients_reach_new_scores_and_coefficients_but_no_stored_scores():
    active = first(2, slots=2)
    scores = {"a": jnp.ones((2, 2))}
    stored = {"a": jnp.stack([jnp.ones((2, 2)), 3 * jnp.ones((2, 2))])}
    logits = initial_logits("blc", active)[None]

    def total(scores, stored, logits):
        return compose(scores, stored, logits, active)["a"].sum()

    g_scores, g_stored, g_logits = jax.grad(total, (0, 1, 2))(scores, stored, logits)
    np.testing.assert_allclose(g_scores["a"], np.full((2, 2), 0.5), rtol=1e-6)
    assert not np.asarray(g_stored["a"]).any()
    # Softmax: d/dlogit_i = b_i (x_i - mean), with x = sums 4, 12, 4 and mean 6.
    np.testing.assert_allclose(g_logits[0], [-0.5, 1.5, -1.0], rtol=1e-5)


def test_one_coefficient_per_mask_is_shared_by_all_layers():
    active = first(1, slots=1)
    scores = {"a": jnp.zeros((2, 2)), "b": jnp.zeros((1, 2))}
    stored = {"a": jnp.ones((1, 2, 2)), "b": jnp.ones((1, 1, 2))}
    composed = compose(scores, stored, jnp.log(jnp.array([[0.25, 0.75]])), active)
    for layer in composed.values():
        np.testing.assert_allclose(layer, 0.25, rtol=1e-6)
