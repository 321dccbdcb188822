"""Progress & Compress: the column that learns in each phase, and its losses."""

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
OBSERVATIONS = jax.random.normal(jax.random.key(1), (7, 4))


@pytest.fixture
def method():
    return ProgressCompress()


@pytest.fixture
def start(method):
    return method.begin_task(method.init(NETWORK, 2, KEY), jnp.asarray(0), KEY)


def loss_gradient(method, state):
    def loss(columns):
        policy, value = jax.vmap(method.network(state, columns, KEY))(OBSERVATIONS)
        return jnp.sum(policy.logits**2) + jnp.sum((value - 1) ** 2)

    return jax.grad(loss)(method.trainable(state))


def replay_gradient(method, state):
    steps = ReplayedSteps(OBSERVATIONS, None, jnp.zeros(7))

    def loss(columns):
        outputs = jax.vmap(method.network(state, columns, KEY))(OBSERVATIONS)
        return jnp.sum(
            method.replay_loss(state, columns, lambda n: n, steps, outputs, KEY)
        )

    return jax.grad(loss)(method.trainable(state))


def is_nonzero(gradient):
    return any(np.asarray(leaf).any() for leaf in jax.tree.leaves(gradient))


def test_the_active_column_learns_first_then_the_base_from_it(method, start):
    progress, replayed = loss_gradient(method, start), replay_gradient(method, start)
    assert is_nonzero(progress.active)
    assert is_nonzero(progress.adaptors)
    assert not is_nonzero(progress.base)
    assert not is_nonzero(replayed)
    compressing = method.next_phase(start, start.columns, KEY)
    assert not is_nonzero(loss_gradient(method, compressing))
    replayed = replay_gradient(method, compressing)
    assert is_nonzero(replayed.base)
    assert not is_nonzero(replayed.active)
    assert not is_nonzero(replayed.adaptors)


def test_the_base_learns_the_policy_of_the_active_column(method, start):
    """KL(active || base) of each step, by hand."""
    state = method.next_phase(start, start.columns, KEY)
    columns = jax.tree.map(lambda x: 3 * x, state.columns)
    steps = ReplayedSteps(OBSERVATIONS, None, jnp.zeros(7))
    outputs = jax.vmap(method.network(state, columns, KEY))(OBSERVATIONS)
    losses = method.replay_loss(state, columns, lambda n: n, steps, outputs, KEY)
    active, base = (
        np.asarray(
            jax.nn.log_softmax(jax.vmap(net)(OBSERVATIONS)[0].logits), np.float64
        )
        for net in (columns, columns.base)
    )
    expected = (np.exp(active) * (active - base)).sum(-1)
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-8)
    assert expected.max() > 1e-9


def test_only_the_base_is_evaluated_and_exported(method, start):
    policy = method.policy(start, start.columns, jnp.asarray(1))
    assert policy is start.columns.base
    exported = method.export(start, start.columns)
    assert exported["trunk.0.weight"].shape == (6, 4)


def test_a_new_task_has_a_new_active_column_and_the_old_base(method, start):
    ended = method.end_task(start, start.columns, KEY)
    next_task = method.begin_task(ended, jnp.asarray(1), jax.random.key(9))
    same = jax.tree.map(np.array_equal, next_task.columns.base, start.columns.base)
    assert all(jax.tree.leaves(same))
    for part in ("active", "adaptors"):
        after, before = getattr(next_task.columns, part), getattr(start.columns, part)
        weights = [x for x in jax.tree.leaves(after) if x.ndim > 1]
        old_weights = [x for x in jax.tree.leaves(before) if x.ndim > 1]
        assert not any(map(np.array_equal, weights, old_weights))


def test_the_published_runs_reuse_adaptors_and_measure_late(start):
    published = make_method("progress-compress-cora")
    assert published.traits.replay.between_phases
    next_task = published.begin_task(start, jnp.asarray(1), jax.random.key(9))
    unchanged = map(
        np.array_equal,
        jax.tree.leaves(next_task.columns.adaptors),
        jax.tree.leaves(start.columns.adaptors),
    )
    assert all(unchanged)
    ones = jax.tree.map(jnp.ones_like, start.columns)
    measured = published.accumulate_gradient(start, ones, 32)
    # In the first task there is no anchor: there is nothing to protect yet.
    first = published.next_phase(measured, start.columns, KEY)
    assert not is_nonzero(first.ewc.importance)
    assert not is_nonzero((first.ewc.squares, first.ewc.batches))
    later = eqx.tree_at(lambda s: s.visits, measured, jnp.asarray(1))
    assert is_nonzero(published.next_phase(later, start.columns, KEY).ewc.importance)


@pytest.mark.parametrize("name", ["progress-compress", "progress-compress-cora"])
def test_the_base_has_a_penalty_only_while_compressing(start, name):
    """In the third task the published anchor is that of the first."""
    method = make_method(name)
    ones = jax.tree.map(jnp.ones_like, start.columns)
    state, columns = start, start.columns
    for _ in range(2):
        state = method.accumulate_gradient(
            method.begin_task(state, jnp.asarray(0), KEY), ones, 32
        )
        state = method.next_phase(state, columns, KEY)
        columns = jax.tree.map(lambda x: x + 1, columns)
        state = method.end_task(state, columns, KEY)
    state = method.begin_task(state, jnp.asarray(0), KEY)
    assert float(method.penalty(state, columns)) == 0.0
    compressing = method.next_phase(state, columns, KEY)
    moved = jax.tree.map(lambda x: x + 1, columns)
    assert float(method.penalty(compressing, moved)) > 0.0


def test_the_anchor_is_the_base_at_the_end_of_a_task(method, start):
    ones = jax.tree.map(jnp.ones_like, start.columns)
    ended = method.end_task(
        method.accumulate_gradient(start, ones, 32), start.columns, KEY
    )
    ended = method.next_phase(ended, start.columns, KEY)
    assert float(method.penalty(ended, start.columns)) == 0.0
    moved = jax.tree.map(lambda x: x + 1, start.columns)
    # Importance of each array has length 1: all n entries are 1 / sqrt(n).
    sizes = [leaf.size for leaf in jax.tree.leaves(start.columns.base)]
    expected = 3000 / 2 * sum(size**0.5 for size in sizes)
    assert float(method.penalty(ended, moved)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("options", [{"progress": 1.0}, {"distillation": -1.0}])
def test_impossible_options_are_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=name):
        replace(ProgressCompressOptions(), **options)
