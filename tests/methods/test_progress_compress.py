"""Progress & Compress: which column learns when, and from what."""

from dataclasses import replace

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones import SharedMLP
from personae.methods import make_method
from personae.methods.progress_compress import (
    ProgressCompress,
    ProgressCompressOptions,
)
from personae.types import ReplayedSteps

KEY = jax.random.key(3)
NETWORK = SharedMLP(4, (6, 5), gym.spaces.Discrete(3), use_bias=True, key=KEY)
SEEN = jax.random.normal(jax.random.key(1), (7, 4))


@pytest.fixture
def method():
    return ProgressCompress()


@pytest.fixture
def begun(method):
    return method.begin_task(method.init(NETWORK, 2, KEY), jnp.asarray(0), KEY)


def acts(method, state):
    def loss(columns):
        policy, value = jax.vmap(method.network(state, columns, KEY))(SEEN)
        return jnp.sum(policy.logits**2) + jnp.sum((value - 1) ** 2)

    return jax.grad(loss)(method.trainable(state))


def rehearses(method, state):
    steps = ReplayedSteps(SEEN, None, jnp.zeros(7))

    def loss(columns):
        now = jax.vmap(method.network(state, columns, KEY))(SEEN)
        return jnp.sum(method.replay_loss(state, columns, lambda n: n, steps, now, KEY))

    return jax.grad(loss)(method.trainable(state))


def moves(gradient):
    return any(np.asarray(leaf).any() for leaf in jax.tree.leaves(gradient))


def test_the_active_column_learns_first_then_the_base_from_it(method, begun):
    progress, rehearsed = acts(method, begun), rehearses(method, begun)
    assert moves(progress.active)
    assert moves(progress.adaptors)
    assert not moves(progress.base)
    assert not moves(rehearsed)
    compressing = method.next_phase(begun, begun.columns, KEY)
    assert not moves(acts(method, compressing))
    rehearsed = rehearses(method, compressing)
    assert moves(rehearsed.base)
    assert not moves(rehearsed.active)
    assert not moves(rehearsed.adaptors)


def test_what_is_passed_on_is_the_policy(method, begun):
    """KL(active || base) of each step, by hand."""
    state = method.next_phase(begun, begun.columns, KEY)
    columns = jax.tree.map(lambda x: 3 * x, state.columns)
    steps = ReplayedSteps(SEEN, None, jnp.zeros(7))
    now = jax.vmap(method.network(state, columns, KEY))(SEEN)
    found = method.replay_loss(state, columns, lambda n: n, steps, now, KEY)
    active, base = (
        np.asarray(jax.nn.log_softmax(jax.vmap(net)(SEEN)[0].logits), np.float64)
        for net in (columns, columns.base)
    )
    expected = (np.exp(active) * (active - base)).sum(-1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-8)
    assert expected.max() > 1e-9


def test_only_the_base_is_judged_and_kept(method, begun):
    policy = method.policy(begun, begun.columns, jnp.asarray(1))
    assert policy is begun.columns.base
    exported = method.export(begun, begun.columns)
    assert exported["trunk.0.weight"].shape == (6, 4)


def test_a_new_task_has_a_new_active_column_and_the_old_base(method, begun):
    ended = method.end_task(begun, begun.columns, KEY)
    again = method.begin_task(ended, jnp.asarray(1), jax.random.key(9))
    same = jax.tree.map(np.array_equal, again.columns.base, begun.columns.base)
    assert all(jax.tree.leaves(same))
    for part in ("active", "adaptors"):
        ours, before = getattr(again.columns, part), getattr(begun.columns, part)
        weights = [x for x in jax.tree.leaves(ours) if x.ndim > 1]
        others = [x for x in jax.tree.leaves(before) if x.ndim > 1]
        assert not any(map(np.array_equal, weights, others))


def test_the_published_runs_kept_adaptors_and_measured_late(begun):
    published = make_method("progress-compress-cora")
    assert published.traits.replay.between_phases
    again = published.begin_task(begun, jnp.asarray(1), jax.random.key(9))
    kept = map(
        np.array_equal,
        jax.tree.leaves(again.columns.adaptors),
        jax.tree.leaves(begun.columns.adaptors),
    )
    assert all(kept)
    ones = jax.tree.map(jnp.ones_like, begun.columns)
    reviewed = published.accumulate_gradient(begun, ones, 32)
    # In the first task nothing is held: there is nothing to protect yet.
    first = published.next_phase(reviewed, begun.columns, KEY)
    assert not moves(first.ewc.importance)
    assert not moves((first.ewc.squares, first.ewc.number))
    later = eqx.tree_at(lambda s: s.visits, reviewed, jnp.asarray(1))
    assert moves(published.next_phase(later, begun.columns, KEY).ewc.importance)


@pytest.mark.parametrize("name", ["progress-compress", "progress-compress-cora"])
def test_the_base_is_pulled_back_only_while_it_is_taught(begun, name):
    """In the third task the published anchor is that of the first."""
    method = make_method(name)
    ones = jax.tree.map(jnp.ones_like, begun.columns)
    state, columns = begun, begun.columns
    for _ in range(2):
        state = method.accumulate_gradient(
            method.begin_task(state, jnp.asarray(0), KEY), ones, 32
        )
        state = method.next_phase(state, columns, KEY)
        columns = jax.tree.map(lambda x: x + 1, columns)
        state = method.end_task(state, columns, KEY)
    state = method.begin_task(state, jnp.asarray(0), KEY)
    assert float(method.penalty(state, columns)) == 0.0
    taught = method.next_phase(state, columns, KEY)
    moved = jax.tree.map(lambda x: x + 1, columns)
    assert float(method.penalty(taught, moved)) > 0.0


def test_the_base_is_held_where_a_task_left_it(method, begun):
    ones = jax.tree.map(jnp.ones_like, begun.columns)
    ended = method.end_task(
        method.accumulate_gradient(begun, ones, 32), begun.columns, KEY
    )
    ended = method.next_phase(ended, begun.columns, KEY)
    assert float(method.penalty(ended, begun.columns)) == 0.0
    moved = jax.tree.map(lambda x: x + 1, begun.columns)
    # Importance of each array has length 1: all n entries are 1 / sqrt(n).
    sizes = [leaf.size for leaf in jax.tree.leaves(begun.columns.base)]
    expected = 3000 / 2 * sum(size**0.5 for size in sizes)
    assert float(method.penalty(ended, moved)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("options", [{"progress": 1.0}, {"distillation": -1.0}])
def test_impossible_options_are_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=name):
        replace(ProgressCompressOptions(), **options)
