import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones.batching import IMAGES_AT_ONCE, apply_network, map_agents
from personae.backbones.convnet import ConvNet
from personae.types import WithPreviousStep

KEY = jax.random.key(0)
IMAGE = (36, 36, 3)


def a_network():
    actions = gym.spaces.Discrete(4)
    return ConvNet(36 * 36 * 3, IMAGE, [8], actions, True, KEY)


def seen(network):
    return lambda recalled: network(recalled.current.ravel())


def observations(*lead):
    pixels = jax.random.uniform(KEY, (*lead, *IMAGE))
    return WithPreviousStep(pixels, jnp.zeros(lead, int), jnp.zeros(lead))


@pytest.mark.parametrize("lead", [(7, 31), (4, 8), (2 * IMAGES_AT_ONCE,)])
def test_it_is_vmap(lead):
    """Also of numbers that cannot be cut evenly, and of so few that they need not."""
    network, images = seen(a_network()), observations(*lead)
    all_at_once = network
    for _ in lead:
        all_at_once = jax.vmap(all_at_once)
    ours = apply_network(network, images, axes=len(lead))
    for mine, yours in zip(
        *map(jax.tree.leaves, (ours, all_at_once(images))), strict=True
    ):
        assert mine.shape[: len(lead)] == lead
        np.testing.assert_allclose(mine, yours, atol=1e-5)


def takes_turns(lead, shape):
    program = jax.make_jaxpr(
        lambda x: apply_network(lambda o: (o.sum(), o.max()), x, len(lead))
    )
    return "scan" in str(program(jnp.zeros((*lead, *shape))))


def test_only_many_large_images_are_taken_in_turns():
    few, many = (3,), (3, IMAGES_AT_ONCE)
    assert takes_turns(many, IMAGE)
    assert not takes_turns(few, IMAGE)
    assert not takes_turns(many, (7, 7, 3))
    assert not takes_turns(many, (36 * 36 * 3,))


def test_agents_with_large_images_are_taken_in_turns_too():
    agents = jnp.arange(3.0)
    for shape, turns in ((IMAGE, True), ((7, 7, 3), False)):
        seen = jax.random.uniform(KEY, (3, 2, *shape))

        def all_of_them(agents, seen):
            return map_agents(lambda agent, seen: agent * seen.sum(), seen, 2)(
                agents, seen
            )

        expected = agents * seen.sum((1, 2, 3, 4))
        np.testing.assert_allclose(all_of_them(agents, seen), expected, rtol=1e-5)
        assert ("scan" in str(jax.make_jaxpr(all_of_them)(agents, seen))) == turns
