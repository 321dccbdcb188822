"""Any Equinox network can be masked: linear, convolutional, with other parts in it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from personae.backbones import named_weights, signed_constant, split_weights
from personae.masks import choose_by_layer, continuous, init_scores, modulate, threshold


class ConvNet(eqx.Module):
    conv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, key):
        self.conv = eqx.nn.Conv2d(3, 4, 3, stride=2, key=key)
        self.norm = eqx.nn.LayerNorm(36)
        self.head = eqx.nn.Linear(36, 2, key=key)

    def __call__(self, x):
        x = jax.nn.relu(self.conv(x)).ravel()
        return self.head(self.norm(x))


def make():
    backbone = signed_constant(ConvNet(jax.random.key(0)), jax.random.key(1))
    return backbone, init_scores(backbone, jax.random.key(2))


def test_weights_are_masked_and_other_arrays_do_not_change():
    backbone, scores = make()
    network = modulate(backbone, scores, choose_by_layer(threshold()))
    assert set(named_weights(scores)) == {"conv", "head"}
    for name, layer in named_weights(split_weights(network)[0]).items():
        weight = named_weights(split_weights(backbone)[0])[name]
        on = np.asarray(named_weights(scores)[name]) >= 0
        np.testing.assert_array_equal(layer, np.where(on, weight, 0))
        assert 0.3 < on.mean() < 0.7
    np.testing.assert_array_equal(network.norm.weight, backbone.norm.weight)


def test_the_masked_network_computes_and_differentiates():
    backbone, scores = make()
    x = jax.random.normal(jax.random.key(3), (3, 7, 7))

    def loss(scores):
        return jnp.sum(modulate(backbone, scores, choose_by_layer(threshold()))(x) ** 2)

    grads = named_weights(jax.grad(loss)(scores))
    assert all(np.asarray(g).any() for g in grads.values())


def test_each_layer_can_have_its_own_rule():
    backbone, scores = make()
    rules = choose_by_layer(threshold(), {"head": continuous()})
    network = modulate(backbone, scores, rules)
    positive = np.maximum(np.asarray(scores.head.weight), 0)
    np.testing.assert_allclose(network.head.weight, backbone.head.weight * positive)
    on = np.asarray(scores.conv.weight) >= 0
    np.testing.assert_array_equal(network.conv.weight, backbone.conv.weight * on)


def test_scores_start_within_the_published_bounds():
    _, scores = make()
    for name, fan_in in {"conv": 27, "head": 36}.items():
        layer = np.asarray(named_weights(scores)[name])
        assert np.abs(layer).max() <= 1 / np.sqrt(fan_in)
        assert np.abs(layer).max() > 0.8 / np.sqrt(fan_in)
