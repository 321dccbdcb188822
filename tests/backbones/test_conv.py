"""The convolutional network, against XLA's own convolutions and PyTorch's network."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personae.backbones import ConvNet, named_weights, split_weights
from personae.backbones.conv import Convolution

KEY = jax.random.key(0)
PROCGEN = (3, 64, 64)


def network(image=PROCGEN, beside=16, use_bias=False):
    inputs = int(np.prod(image)) + beside
    return ConvNet(inputs, image, (512,), gym.spaces.Discrete(15), use_bias, KEY)


@settings(max_examples=15)
@given(
    st.integers(8, 20),
    st.integers(8, 20),
    st.sampled_from([(8, 4), (4, 2), (3, 1), (2, 2), (6, 3)]),
    st.integers(1, 4),
)
def test_products_are_convolutions(height, width, kernel_and_stride, inputs):
    kernel, stride = kernel_and_stride
    rng = np.random.default_rng(0)
    image = jnp.asarray(rng.normal(size=(height, width, inputs)), jnp.float32)
    layer = Convolution(inputs, 5, kernel, stride, use_bias=False, key=KEY)
    ours = layer(image)
    theirs = jax.lax.conv_general_dilated(
        image[None],
        layer.weight,
        (stride, stride),
        "VALID",
        dimension_numbers=("NHWC", "OIHW", "NHWC"),
    )[0]
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_the_paper_counts_608512_weights_without_biases():
    weights = named_weights(split_weights(network())[0])
    assert sum(weight.size for weight in weights.values()) == 608_512
    assert list(weights) == [
        *(f"convolutions.{i}" for i in range(3)),
        "trunk.0",
        "actor.logits",
        "critic",
    ]


def test_images_may_have_their_channels_first_or_last():
    first, last = network(PROCGEN), network((64, 64, 3))
    image = np.random.default_rng(0).random(PROCGEN, np.float32)
    beside = np.ones(16, np.float32)
    inputs = [
        jnp.asarray(np.concatenate([each.ravel(), beside]))
        for each in (image, np.moveaxis(image, 0, -1))
    ]
    one, other = first(inputs[0]), last(inputs[1])
    np.testing.assert_allclose(one[0].logits, other[0].logits, rtol=1e-4, atol=1e-5)


def test_what_is_beside_the_image_counts():
    net, image = network(), jnp.zeros(np.prod(PROCGEN))
    values = [net(jnp.append(image, jnp.full(16, x)))[1] for x in (0.0, 1.0)]
    assert values[0] != values[1]


@pytest.mark.parametrize(
    ("image", "said"), [((12,), "need images"), ((20, 20, 3), "too small")]
)
def test_what_is_no_image_is_refused(image, said):
    with pytest.raises(ValueError, match=said):
        network(image)


@pytest.mark.parametrize("use_bias", [True, False])
def test_pytorch_computes_the_same(use_bias):
    torch = pytest.importorskip("torch")
    ours = network(use_bias=use_bias)
    nn = torch.nn
    convs = [nn.Conv2d(3, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)]
    linear, actor, critic = nn.Linear(1024, 512), nn.Linear(528, 15), nn.Linear(528, 1)
    layers = [
        *zip(convs, ours.convolutions, strict=True),
        (linear, ours.trunk[0]),
        (actor, ours.actor.logits),
        (critic, ours.critic),
    ]
    with torch.no_grad():
        for theirs, own in layers:
            theirs.weight.copy_(torch.tensor(np.asarray(own.weight)))
            bias = np.asarray(own.bias) if use_bias else np.zeros(theirs.bias.shape)
            theirs.bias.copy_(torch.tensor(bias))
        rng = np.random.default_rng(0)
        image, beside = rng.random(PROCGEN, np.float32), rng.random(16, np.float32)
        features = torch.tensor(image)[None]
        for conv in convs:
            features = torch.relu(conv(features))
        features = torch.relu(linear(features.flatten(1)))
        features = torch.cat([features, torch.tensor(beside)[None]], 1)
        logits, value = actor(features)[0], critic(features)[0, 0]
    policy, ours_value = ours(jnp.asarray(np.concatenate([image.ravel(), beside])))
    np.testing.assert_allclose(policy.logits, logits.numpy(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours_value, value.numpy(), rtol=1e-3, atol=1e-4)
