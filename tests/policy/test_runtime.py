"""Policies in NumPy act as networks in JAX do."""

import math

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones.convnet import ConvNet
from personae.backbones.heads import LOG_STD_BOUNDS
from personae.backbones.mlp import SeparateMLP, SharedMLP
from personae.errors import PersonaeError
from personae.policy.architecture import InputSpec, assemble
from personae.policy.jax.translate import architecture_of, arrays_of

SPACES = {
    "discrete": gym.spaces.Discrete(5),
    "several": gym.spaces.MultiDiscrete([2, 3]),
    "box": gym.spaces.Box(-1, 1, (3,)),
}


LABEL = np.array([0, 1, 0], np.float32)


def make_policies(network_type, space, use_bias=True, num_actions=5):
    """Return a policy in JAX, of six numbers and a label, and the same in NumPy."""
    network = network_type(9, (16, 16), space, use_bias, jax.random.key(0))
    mean, deviation = np.full(6, 0.5, np.float32), np.full(6, 2.0, np.float32)
    inputs = InputSpec(LABEL, 3.0, num_actions, mean, deviation)

    def in_jax(observation):
        scaled = 3 * (observation - mean) / deviation
        return network(jnp.concatenate([scaled, LABEL]))

    return in_jax, assemble(architecture_of(network), arrays_of(network), inputs)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("network_type", [SharedMLP, SeparateMLP])
@pytest.mark.parametrize("use_bias", [True, False])
def test_the_most_likely_actions_are_the_same(space, network_type, use_bias):
    network, policy = make_policies(network_type, SPACES[space], use_bias)
    rng = np.random.default_rng(1)
    observations = rng.normal(size=(10_000, 6)).astype(np.float32)
    expected = jax.vmap(lambda x: network(x)[0].mode())(jnp.asarray(observations))
    actions = policy.act(observations, None)
    if space == "box":
        np.testing.assert_allclose(actions, expected, atol=1e-5)
    else:
        np.testing.assert_array_equal(actions, expected)
    single = np.stack([policy.act(row, None) for row in observations[:50]])
    np.testing.assert_allclose(single, actions[:50], atol=1e-6)


@pytest.mark.parametrize("space", ["discrete", "several"])
def test_actions_are_drawn_with_the_probabilities_of_the_policy(space):
    network, policy = make_policies(SharedMLP, SPACES[space])
    observation = np.ones(6, np.float32)
    rng = np.random.default_rng(2)
    samples = policy.act(np.broadcast_to(observation, (40_000, 6)), rng)
    distribution, _ = network(jnp.asarray(observation))
    for action, count in zip(
        *np.unique(samples, axis=0, return_counts=True), strict=True
    ):
        expected = float(jnp.exp(distribution.log_prob(jnp.asarray(action))))
        assert count / len(samples) == pytest.approx(expected, abs=0.01)


def test_real_actions_are_drawn_around_their_mean():
    network, policy = make_policies(SeparateMLP, SPACES["box"])
    observation = np.ones(6, np.float32)
    rng = np.random.default_rng(2)
    samples = policy.act(np.broadcast_to(observation, (40_000, 6)), rng)
    distribution, _ = network(jnp.asarray(observation))
    np.testing.assert_allclose(samples.mean(0), distribution.mode(), atol=0.03)
    deviation = np.exp(np.clip(distribution.log_std, *LOG_STD_BOUNDS))
    np.testing.assert_allclose(samples.std(0), deviation, rtol=0.02)


def test_actions_that_a_task_does_not_have_are_never_taken():
    _, policy = make_policies(SharedMLP, SPACES["discrete"], num_actions=2)
    observations = np.random.default_rng(3).normal(size=(1000, 6)).astype(np.float32)
    assert set(policy.act(observations, np.random.default_rng(4)).tolist()) == {0, 1}


def test_other_networks_are_refused():
    with pytest.raises(PersonaeError, match="cannot act for a Linear"):
        architecture_of(eqx.nn.Linear(2, 2, key=jax.random.key(0)))


def test_a_network_without_hidden_layers_is_refused():
    network = SharedMLP(4, (), SPACES["box"], True, jax.random.key(0))
    with pytest.raises(PersonaeError, match="without hidden layers"):
        architecture_of(network)


@pytest.mark.parametrize("kind", ["nature", "residual"])
@pytest.mark.parametrize("image", [(40, 44, 3), (3, 40, 44)])
def test_convolutions_have_the_same_features(image, kind):
    """Extra inputs are the last of five actions, the reward and a label."""
    size = math.prod(image)
    network = ConvNet(
        size + 9, image, (16,), SPACES["discrete"], True, jax.random.key(0), kind
    )
    policy = assemble(
        architecture_of(network),
        arrays_of(network),
        InputSpec(LABEL, 1 / 255, num_actions=5),
    )
    rng = np.random.default_rng(5)
    images = rng.integers(0, 256, (30, size), np.uint8)
    extra_inputs = rng.normal(size=(30, 6)).astype(np.float32)
    labels = np.broadcast_to(LABEL, (30, 3))
    inputs = np.concatenate([images / np.float32(255), extra_inputs, labels], 1)
    expected = jax.vmap(lambda x: network(x)[0].logits)(jnp.asarray(inputs))
    logits = policy.head.logits(policy.features(images, extra_inputs))
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    single = policy.act(images[3], None, extra_inputs[3])
    np.testing.assert_array_equal(single, np.argmax(expected[3]))
