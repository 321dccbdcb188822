import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from personae.backbones import Categorical, DiagonalGaussian, Encoder, SharedMLP
from personae.backbones.distributions import MultiCategorical
from personae.backbones.heads import LOG_STD_BOUNDS

KEY = jax.random.key(0)


def test_categorical_against_scipy():
    logits = np.array([0.3, -1.2, 2.0])
    p = np.exp(logits) / np.exp(logits).sum()
    policy = Categorical(jnp.asarray(logits))
    for action in range(3):
        log_prob = policy.log_prob(jnp.asarray(action))
        np.testing.assert_allclose(log_prob, np.log(p[action]), rtol=1e-6)
    np.testing.assert_allclose(policy.entropy(), stats.entropy(p), rtol=1e-6)
    assert int(policy.mode()) == 2


def test_categorical_samples_by_its_probabilities():
    p = jnp.array([0.2, 0.5, 0.3])
    batch = Categorical(jnp.broadcast_to(jnp.log(p), (20_000, 3)))
    counts = np.bincount(np.asarray(batch.sample(KEY)), minlength=3) / 20_000
    np.testing.assert_allclose(counts, p, atol=0.02)


def test_gaussian_against_scipy():
    mean, std = np.array([0.5, -1.0]), np.array([0.7, 1.3])
    policy = DiagonalGaussian(jnp.asarray(mean), jnp.log(jnp.asarray(std)))
    action = np.array([0.1, 0.4])
    normal = stats.norm(mean, std)
    np.testing.assert_allclose(
        policy.log_prob(jnp.asarray(action)), normal.logpdf(action).sum(), rtol=1e-5
    )
    np.testing.assert_allclose(policy.entropy(), normal.entropy().sum(), rtol=1e-5)


def test_the_ct8_network_has_the_published_number_of_scores():
    network = SharedMLP(152, (200, 200, 200), gym.spaces.Discrete(3), False, KEY)
    assert sum(leaf.size for leaf in jax.tree.leaves(network)) == 111_200


def test_gaussian_head_clips_the_deviation():
    space = gym.spaces.Box(-1, 1, (4,))
    network = SharedMLP(6, (8,), space, True, KEY)
    policy, value = network(100 * jnp.ones(6))
    assert policy.mean.shape == (4,)
    assert value.shape == ()
    assert np.all(np.asarray(policy.log_std) >= np.float32(LOG_STD_BOUNDS[0]))
    assert np.all(np.asarray(policy.log_std) <= np.float32(LOG_STD_BOUNDS[1]))


def test_an_unknown_action_space_is_named():
    with pytest.raises(TypeError, match="MultiBinary"):
        SharedMLP(6, (8,), gym.spaces.MultiBinary(3), True, KEY)


def test_the_label_is_appended_as_a_one_hot_vector():
    encoder = Encoder(scale=1 / 255, label_dim=3)
    inputs = encoder(jnp.full((2, 2), 51, jnp.uint8), jnp.asarray(1))
    np.testing.assert_allclose(inputs, [0.2] * 4 + [0, 1, 0], rtol=1e-6)
    assert Encoder(1.0, 0)(jnp.zeros((2, 2)), jnp.asarray(1)).shape == (4,)


def test_divergences_by_hand():
    p, q = np.array([0.5, 0.5]), np.array([0.25, 0.75])
    even, skewed = (Categorical(jnp.log(jnp.asarray(x))) for x in (p, q))
    np.testing.assert_allclose(even.divergence(skewed), stats.entropy(p, q), rtol=1e-6)
    twice = MultiCategorical((even, skewed))
    other = MultiCategorical((skewed, even))
    expected = stats.entropy(p, q) + stats.entropy(q, p)
    np.testing.assert_allclose(twice.divergence(other), expected, rtol=1e-6)
    # KL(N(0, 1) || N(1, 4)) = ln 2 + (1 + 1) / 8 - 1 / 2.
    narrow = DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))
    wide = DiagonalGaussian(jnp.ones(1), jnp.log(jnp.full(1, 2.0)))
    np.testing.assert_allclose(narrow.divergence(wide), np.log(2) - 0.25, rtol=1e-6)
    assert float(wide.divergence(wide)) == 0.0
