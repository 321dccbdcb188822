"""The methods behind the names in the registry."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones.mlp import SharedMLP
from personae.errors import UsageError
from personae.methods import MaskOptions
from personae.methods.registry import METHODS, MethodOptions, make_method

ACTIONS = gym.spaces.Discrete(3)


def masks_of(name):
    """Return the first masks of a method: masked by fixed weights, by layer."""
    options = MethodOptions(masks=MaskOptions(rule="continuous"))
    method = make_method(name, options)
    network = SharedMLP(8, (32, 32), ACTIONS, use_bias=False, key=jax.random.key(0))
    key = jax.random.key(1)
    state = method.begin_task(method.init(network, 2, key), jnp.asarray(0), key)
    masked = method.network(state, method.trainable(state), key)
    fixed = state.backbone
    return {
        "trunk": np.asarray(masked.trunk[1].weight / fixed.trunk[1].weight),
        "actor": np.asarray(masked.actor.logits.weight / fixed.actor.logits.weight),
        "critic": np.asarray(masked.critic.weight / fixed.critic.weight),
    }


def is_binary(mask):
    return set(np.unique(np.round(mask, 5))) == {0, 1}


def test_continuous_masks_where_a_curriculum_has_them():
    assert not any(map(is_binary, masks_of("mask-ri").values()))


def test_binary_masks_in_every_layer():
    assert all(map(is_binary, masks_of("mask-ri-binary").values()))


def test_binary_masks_in_all_but_the_heads():
    masks = masks_of("mask-ri-mixed")
    assert {layer: is_binary(mask) for layer, mask in masks.items()} == {
        "trunk": True,
        "actor": False,
        "critic": False,
    }


@pytest.mark.parametrize(("name", "heads"), [("ppo", 1), ("ppo-mh", 3)])
def test_one_head_or_one_for_each_task(name, heads):
    network = SharedMLP(8, (4,), ACTIONS, use_bias=True, key=jax.random.key(0))
    state = make_method(name).init(network, 3, jax.random.key(1))
    assert state.network.num_heads == heads


def test_an_unknown_name_gives_the_nearest_one():
    with pytest.raises(UsageError, match="'mask-blc'"):
        make_method("mask-bcl")
    assert all(make_method(name) for name in METHODS)
