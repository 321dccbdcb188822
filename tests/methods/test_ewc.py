"""Elastic weight consolidation against numbers worked out by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from personae.backbones.multihead import MultiHead
from personae.methods.ewc import EWC, EWCOptions
from personae.methods.l2 import L2, L2Options


class Two(eqx.Module):
    """A body of two parameters."""

    a: jax.Array
    b: jax.Array


def network(a, b, head=0.0):
    numbers = jnp.asarray(a), jnp.asarray(b), jnp.asarray([head])
    return MultiHead(Two(*numbers[:2]), numbers[2])


def lived(ewc, tasks):
    """Return the state after tasks of (gradients of batches, weights at the end)."""
    state = ewc.init(network(0.0, 0.0))
    for gradients, weights in tasks:
        for gradient in gradients:
            state = ewc.accumulate_gradient(state, network(*gradient), batch_size=4)
        state = ewc.end_task(state, network(*weights))
    return state


TASKS = [
    ([(2.0, 0.0), (4.0, 2.0)], (1.0, -1.0)),
    ([(0.0, 6.0)], (2.0, 0.0)),
]


def test_two_parameters_by_hand_as_published():
    # Task 1: squares over the batch size, added up: a (4 + 16) / 4 = 5, b 4 / 4 = 1;
    # half of it remains: 2.5, 0.5. Task 2: a 0, b 36 / 4 = 9.
    # a 0.5 * 2.5 + 0.5 * 0 = 1.25, b 0.5 * 0.5 + 0.5 * 9 = 4.75. Anchor (2, 0).
    ewc = EWC(EWCOptions(strength=100.0, retention=0.5))
    state = lived(ewc, TASKS)
    assert float(state.importance.body.a) == 1.25
    assert float(state.importance.body.b) == 4.75
    moved = network(3.0, 2.0)
    # 100 * (1.25 * 1 + 4.75 * 4)
    assert float(ewc.penalty(state, moved)) == pytest.approx(2025.0)
    gradient = jax.grad(lambda n: ewc.penalty(state, n))(moved)
    assert float(gradient.body.a) == pytest.approx(100 * 2 * 1.25 * 1)
    assert float(gradient.body.b) == pytest.approx(100 * 2 * 4.75 * 2)


def test_two_parameters_by_hand_as_in_textbooks():
    # Task 1: mean of squares: a (4 + 16) / 2 = 10, b 4 / 2 = 2; half: 5, 1.
    # Task 2: a 0.5 * 5 + 0 = 2.5, b 0.5 * 1 + 0.5 * 36 = 18.5.
    ewc = EWC(EWCOptions(strength=10.0, retention=0.5, fisher="mean"))
    state = lived(ewc, TASKS)
    assert float(state.importance.body.a) == 2.5
    assert float(state.importance.body.b) == 18.5
    # 10 / 2 * (2.5 * 1 + 18.5 * 4)
    assert float(ewc.penalty(state, network(3.0, 2.0))) == pytest.approx(382.5)


def test_published_importance_grows_with_the_number_of_batches_and_the_mean_does_not():
    once, thrice = ([(2.0, 1.0)], (0.0, 0.0)), ([(2.0, 1.0)] * 3, (0.0, 0.0))

    def importance(fisher, task):
        state = lived(EWC(EWCOptions(fisher=fisher)), [task])
        return float(state.importance.body.a)

    assert importance("sum", thrice) == pytest.approx(3 * importance("sum", once))
    assert importance("mean", thrice) == pytest.approx(importance("mean", once))


def test_nothing_is_held_before_the_first_task_has_ended():
    for regulariser in (EWC(), L2()):
        state = regulariser.init(network(0.0, 0.0))
        assert float(regulariser.penalty(state, network(5.0, -7.0))) == 0.0


def test_l2_by_hand():
    l2 = L2(L2Options(strength=3.0))
    state = l2.end_task(l2.init(network(0.0, 0.0)), network(1.0, -1.0))
    # 3 * ((2 - 1)^2 + (1 + 1)^2); heads are free.
    assert float(l2.penalty(state, network(2.0, 1.0, head=9.0))) == pytest.approx(15.0)


@given(st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=2))
def test_the_penalty_is_never_negative_and_zero_at_the_anchor(weights):
    ewc = EWC()
    state = lived(ewc, [TASKS[0], (TASKS[1][0], weights)])
    assert float(ewc.penalty(state, network(*weights))) == 0.0
    moved = network(weights[0] + 1, weights[1])
    assert float(ewc.penalty(state, moved)) > 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [({"strength": -1.0}, "strength"), ({"retention": 1.0}, r"retention .* 1\.0")],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        EWCOptions(**options)


def test_the_importance_of_an_unused_head_is_zero():
    ewc = EWC()
    heads = MultiHead(Two(jnp.asarray(1.0), jnp.asarray(2.0)), jnp.asarray([1.0, 2.0]))

    def loss(net):
        return (net.body.a * net.heads[0]) ** 2

    state = ewc.accumulate_gradient(ewc.init(heads), jax.grad(loss)(heads), 1)
    state = ewc.end_task(state, heads)
    importance = np.asarray(state.importance.heads)
    assert importance[0] > 0
    assert importance[1] == 0
