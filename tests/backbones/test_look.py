import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones.conv import ConvNet
from personae.backbones.look import IMAGES_AT_ONCE, look
from personae.types import Recalled

KEY = jax.random.key(0)
IMAGE = (36, 36, 3)


def a_network():
    actions = gym.spaces.Discrete(4)
    return ConvNet(36 * 36 * 3, IMAGE, [8], actions, True, KEY)


def seen(network):
    return lambda recalled: network(recalled.shown.ravel())


def observations(*lead):
    pixels = jax.random.uniform(KEY, (*lead, *IMAGE))
    return Recalled(pixels, jnp.zeros(lead, int), jnp.zeros(lead))


@pytest.mark.parametrize("lead", [(7, 31), (4, 8), (2 * IMAGES_AT_ONCE,)])
def test_it_is_vmap_in_values_and_gradients(lead):
    """Also of numbers that cannot be cut evenly, and of so few that they need not."""
    network, images = a_network(), observations(*lead)

    def all_at_once(network, given):
        for _ in lead:
            network = jax.vmap(network)
        return network(given)

    def few_at_a_time(network, given):
        return look(network, given, axes=len(lead))

    def loss(network, looks):
        policy, value = looks(seen(network), images)
        return jnp.sum(policy.entropy() * value)

    for ours, theirs in zip(
        jax.tree.leaves(few_at_a_time(seen(network), images)),
        jax.tree.leaves(all_at_once(seen(network), images)),
        strict=True,
    ):
        assert ours.shape[: len(lead)] == lead
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    ours, theirs = (
        jax.tree.leaves(eqx.filter_grad(loss)(network, looks))
        for looks in (few_at_a_time, all_at_once)
    )
    for mine, yours in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, yours, atol=1e-3)


def takes_turns(lead, shape):
    program = jax.make_jaxpr(lambda x: look(lambda o: (o.sum(), o.max()), x, len(lead)))
    return "scan" in str(program(jnp.zeros((*lead, *shape))))


def test_only_many_large_images_are_taken_in_turns():
    few, many = (3,), (3, IMAGES_AT_ONCE)
    assert takes_turns(many, IMAGE)
    assert not takes_turns(few, IMAGE)
    assert not takes_turns(many, (7, 7, 3))
    assert not takes_turns(many, (36 * 36 * 3,))
