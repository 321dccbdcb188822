"""Networks trained as a whole: how they start, go on, and start over."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones import SharedMLP
from personae.backbones.multihead import orthogonal_with_heads
from personae.backbones.weights import orthogonal
from personae.methods import METHODS, make_method
from personae.training.factory import make_training

KEY = jax.random.key(0)


def network():
    return SharedMLP(20, (12, 16), gym.spaces.Discrete(3), True, KEY)


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def test_the_published_initialisation():
    fresh = orthogonal(network(), KEY)
    for layer in fresh.trunk:
        weight = np.asarray(layer.weight)
        small = min(weight.shape)
        gram = weight @ weight.T if weight.shape[0] == small else weight.T @ weight
        np.testing.assert_allclose(gram, np.eye(small), atol=1e-5)
        assert not np.asarray(layer.bias).any()
    for head in (fresh.actor.logits, fresh.critic):
        weight = np.asarray(head.weight)
        gram = weight @ weight.T
        np.testing.assert_allclose(gram, 1e-6 * np.eye(len(gram)), atol=1e-11)
    policy, value = fresh(jnp.ones(20))
    np.testing.assert_allclose(np.exp(policy.logits), 1, atol=0.02)
    assert abs(float(value)) < 0.02


def test_heads_differ_and_the_body_is_shared():
    multi = orthogonal_with_heads(network(), 4, KEY)
    one, other = multi.select(jnp.asarray(0)), multi.select(jnp.asarray(3))
    np.testing.assert_array_equal(one.trunk[0].weight, other.trunk[0].weight)
    assert (one.actor.logits.weight != other.actor.logits.weight).any()
    single = orthogonal_with_heads(network(), 1, KEY)
    same = [single.select(jnp.asarray(task)) for task in (0, 5)]
    np.testing.assert_array_equal(*(n.actor.logits.weight for n in same))


@pytest.fixture(scope="module")
def two_tasks(tiny):
    """The first two tasks with fine-tuning and with experts."""
    runs = {}
    for method in ("ppo", "expert"):
        training = make_training(tiny, make_method(method), (0, 1))
        agents = training.programs.begin(training.programs.init(), 0, learned=0)[0]
        agents, _ = training.trainer.chunk(agents, 0, 2, None)
        runs[method] = training, agents, training.programs.end(agents, learned=1)
    return runs


def test_fine_tuning_continues_with_weights_and_optimiser(two_tasks):
    training, agents, between = two_tasks["ppo"]
    later = training.programs.begin(between, 1, learned=1)[0]
    for a, b in zip(
        leaves(agents.train.trainable), leaves(later.train.trainable), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    before, after = (
        leaves(agents.train.learner_state),
        leaves(later.train.learner_state),
    )
    assert any(array.any() for array in before)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_experts_do_not_depend_on_previous_tasks(two_tasks):
    training, _, between = two_tasks["expert"]
    after_one = training.programs.begin(between, 1, learned=1)[0]
    at_once = training.programs.begin(training.programs.init(), 1, learned=1)[0]
    for a, b in zip(
        leaves(after_one.train._replace(key=0)),
        leaves(at_once.train._replace(key=0)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_every_method_keeps_the_contract(tiny):
    """All shapes follow without running anything, and phases do not change them."""
    for name in METHODS:
        training = make_training(tiny, make_method(name), (0,))
        agents = training.programs.agent_shapes(visit=0, learned=0)
        phase = training.programs._next_phase.shapes(agents, None)
        assert jax.tree.map(jnp.shape, agents) == jax.tree.map(jnp.shape, phase), name
        exported = training.programs._export.shapes(agents, None)
        assert exported, name
