"""Online EWC of CORA against numbers worked out by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from personae.backbones.multihead import MultiHead
from personae.methods import make_method
from personae.methods.online_ewc import (
    OnlineEWC,
    OnlineEWCOptions,
    normalise_importance,
)


def test_two_tasks_by_hand():
    ewc = OnlineEWC(OnlineEWCOptions(strength=10.0, retention=0.5, scaling="tensors"))
    state = ewc.init(jnp.zeros(2))
    # Task 1: mean of squares (4 + 16) / 2 = 10 and 0: length 1 is (1, 0).
    for gradient in ([2.0, 0.0], [4.0, 0.0]):
        state = ewc.accumulate_gradient(state, jnp.asarray(gradient), batch_size=32)
    state = ewc.end_task(state, jnp.asarray([1.0, 1.0]))
    np.testing.assert_allclose(state.importance, [1.0, 0.0])
    # 10 / 2 * 1 * (3 - 1)^2; the second weight is free.
    assert float(ewc.penalty(state, jnp.asarray([3.0, 9.0]))) == pytest.approx(20.0)
    # Task 2: half of the old, (0.5, 0), and the new, (0, 4), over sqrt(16.25).
    state = ewc.accumulate_gradient(state, jnp.asarray([0.0, 2.0]), batch_size=32)
    state = ewc.end_task(state, jnp.asarray([2.0, 2.0]))
    np.testing.assert_allclose(
        state.importance, np.array([0.5, 4.0]) / np.sqrt(16.25), rtol=1e-6
    )
    np.testing.assert_array_equal(state.anchor, [2.0, 2.0])


def test_rows_columns_and_tensors():
    weights = jnp.asarray([[3.0, 0.0], [4.0, 5.0]])
    np.testing.assert_allclose(
        normalise_importance(weights, "rows"),
        [[1, 0], [4 / 41**0.5, 5 / 41**0.5]],
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        normalise_importance(weights, "columns"), [[0.6, 0], [0.8, 1]]
    )
    np.testing.assert_allclose(
        normalise_importance(weights, "tensors"), weights / 50**0.5
    )
    np.testing.assert_array_equal(normalise_importance(weights, "none"), weights)
    kernel = jnp.ones((2, 3, 4, 4))
    np.testing.assert_allclose(
        normalise_importance(kernel, "rows"), kernel / 48**0.5, rtol=1e-6
    )
    bias = jnp.asarray([3.0, 4.0])
    for scaling in ("rows", "columns", "tensors"):
        np.testing.assert_allclose(normalise_importance(bias, scaling), [0.6, 0.8])


@given(arrays(np.float32, (3, 4), elements=st.floats(0, 1e3, width=32)))
def test_weights_without_importance_stay_free(importance):
    for scaling in ("rows", "columns", "tensors"):
        scaled = np.asarray(normalise_importance(jnp.asarray(importance), scaling))
        assert np.isfinite(scaled).all()
        assert not scaled[importance == 0].any()


def test_heads_of_several_tasks_are_normalised_one_by_one():
    ewc = OnlineEWC(OnlineEWCOptions(scaling="tensors"))
    body = eqx.nn.Linear(2, 1, key=jax.random.key(0))
    network = MultiHead(body, jnp.zeros((2, 1, 2)))
    gradient = MultiHead(body, jnp.asarray([[[1.0, 1.0]], [[0.0, 3.0]]]))
    state = ewc.end_task(
        ewc.accumulate_gradient(ewc.init(network), gradient, 1), network
    )
    np.testing.assert_allclose(
        state.importance.heads, [[[0.5**0.5, 0.5**0.5]], [[0, 1]]], rtol=1e-6
    )


def test_the_published_slips_have_a_name():
    right, published = map(make_method, ("online-ewc", "online-ewc-cora"))
    assert right.traits.replay.per_sample
    assert not published.traits.replay.per_sample
    assert right.regulariser.options.scaling == "rows"
    assert published.regulariser.options.scaling == "columns"
    assert published.regulariser.options.strength == 175.0
    assert published.traits.replay.gradient_batches == 100


@pytest.mark.parametrize(
    "options", [{"strength": -1.0}, {"retention": 1.5}, {"frames": 0}, {"batches": 0}]
)
def test_impossible_options_are_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=name):
        OnlineEWCOptions(**options)
