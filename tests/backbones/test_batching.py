import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones.batching import IMAGES_AT_ONCE, apply_network, map_agents
from personae.backbones.convnet import ConvNet
from personae.backbones.distributions import Categorical
from personae.types import WithPreviousStep

KEY = jax.random.key(0)
IMAGE = (36, 36, 3)


def make_network():
    actions = gym.spaces.Discrete(4)
    network = ConvNet(36 * 36 * 3, IMAGE, [8], actions, True, KEY)
    return lambda observation: network(observation.current.ravel())


def observations_of(*lead):
    pixels = jax.random.uniform(KEY, (*lead, *IMAGE))
    return WithPreviousStep(pixels, jnp.zeros(lead, int), jnp.zeros(lead))


@pytest.mark.parametrize("lead", [(7, 31), (4, 8), (2 * IMAGES_AT_ONCE,)])
def test_applying_a_network_is_vmap(lead):
    """Also for numbers that do not divide evenly, and for few observations."""
    network, images = make_network(), observations_of(*lead)
    all_at_once = network
    for _ in lead:
        all_at_once = jax.vmap(all_at_once)
    outputs = apply_network(network, images, axes=len(lead))
    for actual, expected in zip(
        *map(jax.tree.leaves, (outputs, all_at_once(images))), strict=True
    ):
        assert actual.shape[: len(lead)] == lead
        np.testing.assert_allclose(actual, expected, atol=1e-5)


def is_batched(lead, shape):
    def network(observation):
        return Categorical(observation.ravel()[:2]), observation.sum()

    program = jax.make_jaxpr(lambda x: apply_network(network, x, len(lead)))
    return "scan" in str(program(jnp.zeros((*lead, *shape))))


def test_only_many_large_images_are_batched():
    few, many = (3,), (3, IMAGES_AT_ONCE)
    assert is_batched(many, IMAGE)
    assert not is_batched(few, IMAGE)
    assert not is_batched(many, (7, 7, 3))
    assert not is_batched(many, (36 * 36 * 3,))


def test_agents_with_large_images_are_batched_too():
    agents = jnp.arange(3.0)
    for shape, batched in ((IMAGE, True), ((7, 7, 3), False)):
        images = jax.random.uniform(KEY, (3, 2, *shape))

        def product(agent, image):
            return agent * image.sum()

        def program(agents, images):
            return map_agents(product, images, 2)(agents, images)

        expected = agents * images.sum((1, 2, 3, 4))
        np.testing.assert_allclose(program(agents, images), expected, rtol=1e-5)
        assert ("scan" in str(jax.make_jaxpr(program)(agents, images))) == batched
