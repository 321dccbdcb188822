"""Two columns side by side, against the same sums written out."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones import ConvNet, SharedMLP
from personae.backbones.columns import Columns, layers_of, make_adaptors

KEYS = jax.random.split(jax.random.key(0), 4)
ACTIONS = gym.spaces.Discrete(3)


def test_an_mlp_by_hand():
    active, base = (SharedMLP(4, (6, 5), ACTIONS, True, key) for key in KEYS[:2])
    columns = Columns(active, make_adaptors(active, KEYS[2]), base)
    observation = jax.random.normal(KEYS[3], (4,))

    def linear(layer, x):
        return np.asarray(layer.weight) @ x + np.asarray(layer.bias)

    def relu(x):
        return np.maximum(x, 0)

    first, second, actor, critic = layers_of(active)
    base_first, base_second, *_ = layers_of(base)
    to_second, to_actor, to_critic = (
        lambda x, a=adaptor: linear(a.mix, relu(linear(a.view, x)))
        for adaptor in columns.adaptors
    )
    x = np.asarray(observation)
    features_1 = relu(linear(base_first, x))
    features_2 = relu(linear(base_second, features_1))
    hidden = relu(linear(first, x))
    hidden = relu(linear(second, hidden) + to_second(features_1))
    logits = linear(actor, hidden) + to_actor(features_2)
    value = linear(critic, hidden) + to_critic(features_2)
    policy, column_value = columns(observation)
    np.testing.assert_allclose(policy.logits, logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(column_value, value[0], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number", "shape"),
    [("nature", 5, (64, 32, 4, 4)), ("residual", 17, (16, 16, 3, 3))],
)
def test_every_layer_of_a_convnet_but_the_first_has_an_adaptor(kind, number, shape):
    image = (36, 36, 3)
    active, base = (
        ConvNet(36 * 36 * 3, image, (8,), ACTIONS, True, key, kind) for key in KEYS[:2]
    )
    adaptors = make_adaptors(active, KEYS[2])
    assert len(adaptors) == len(layers_of(active)) - 1 == number
    assert adaptors[0].view.weight.shape == shape
    assert adaptors[0].mix.weight.shape == (shape[0], shape[0], 1, 1)
    columns = Columns(active, adaptors, base)
    observation = jax.random.uniform(KEYS[3], (36 * 36 * 3,))
    policy, value = columns(observation)
    alone, _ = active(observation)
    assert not np.allclose(policy.logits, alone.logits)
    silent = Columns(active, jax.tree.map(jnp.zeros_like, adaptors), base)
    np.testing.assert_array_equal(silent(observation)[0].logits, alone.logits)
    gradient = jax.grad(lambda c: c(observation)[0].logits.sum())(columns)
    for adaptor in gradient.adaptors[:-1]:  # the last one is the critic's
        assert np.asarray(adaptor.view.weight).any()
    assert value.shape == ()
