"""Convolutional networks, against XLA's own operations and PyTorch's networks."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personae.backbones import ConvNet, named_weights, split_weights
from personae.backbones.conv import Convolution
from personae.backbones.convnet import max_pool

KEY = jax.random.key(0)
PROCGEN = (3, 64, 64)


KINDS = ["nature", "residual"]


def network(image=PROCGEN, extra_size=16, use_bias=False, kind="nature", hidden=512):
    inputs, actions = int(np.prod(image)) + extra_size, gym.spaces.Discrete(15)
    return ConvNet(inputs, image, (hidden,), actions, use_bias, KEY, kind)


@settings(max_examples=15)
@given(
    st.integers(8, 20),
    st.integers(8, 20),
    st.sampled_from([(8, 4), (4, 2), (3, 1), (2, 2), (6, 3)]),
    st.integers(1, 4),
    st.integers(0, 2),
)
def test_products_are_convolutions(height, width, kernel_and_stride, inputs, padding):
    kernel, stride = kernel_and_stride
    rng = np.random.default_rng(0)
    image = jnp.asarray(rng.normal(size=(height, width, inputs)), jnp.float32)
    layer = Convolution(inputs, 5, kernel, stride, False, KEY, padding)
    actual = layer(image)
    expected = jax.lax.conv_general_dilated(
        image[None],
        layer.weight,
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "OIHW", "NHWC"),
    )[0]
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


def test_accelerators_convolve_alike(monkeypatch):
    """On accelerators layers with padding are XLA's own."""
    small = network((3, 13, 15), kind="residual", hidden=8)
    observation = jax.random.normal(KEY, (3 * 13 * 15 + 16,))

    def slope():
        return jax.grad(lambda x: small(x)[1])(observation)

    on_cpu = slope()
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    np.testing.assert_allclose(slope(), on_cpu, rtol=1e-4, atol=1e-6)
    assert "conv_general_dilated" in str(jax.make_jaxpr(small)(observation))


@pytest.mark.slow
@settings(max_examples=15)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 100))
def test_pooling_is_xlas(height, width, seed):
    image = jax.random.normal(jax.random.key(seed), (height, width, 3))

    def with_xla(image):
        sizes, strides, padding = (3, 3, 1), (2, 2, 1), ((1, 1), (1, 1), (0, 0))
        return jax.lax.reduce_window(
            image, -jnp.inf, jax.lax.max, sizes, strides, padding
        )

    np.testing.assert_array_equal(max_pool(image), with_xla(image))
    slopes = (
        jax.grad(lambda x, f=f: (f(x) ** 2).sum())(image) for f in (max_pool, with_xla)
    )
    np.testing.assert_allclose(*slopes, rtol=1e-5)


def test_the_paper_counts_608512_weights_without_biases():
    weights = named_weights(split_weights(network())[0])
    assert sum(weight.size for weight in weights.values()) == 608_512
    assert list(weights) == [
        *(f"convolutions.{i}" for i in range(3)),
        "trunk.0",
        "actor.logits",
        "critic",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_images_may_have_their_channels_first_or_last(kind):
    first, last = (network(shape, kind=kind) for shape in (PROCGEN, (64, 64, 3)))
    image = np.random.default_rng(0).random(PROCGEN, np.float32)
    extra = np.ones(16, np.float32)
    inputs = [
        jnp.asarray(np.concatenate([pixels.ravel(), extra]))
        for pixels in (image, np.moveaxis(image, 0, -1))
    ]
    one, other = first(inputs[0]), last(inputs[1])
    np.testing.assert_allclose(one[0].logits, other[0].logits, rtol=1e-4, atol=1e-5)


def test_inputs_beside_the_image_have_an_effect():
    net, image = network(), jnp.zeros(np.prod(PROCGEN))
    values = [net(jnp.append(image, jnp.full(16, x)))[1] for x in (0.0, 1.0)]
    assert values[0] != values[1]


@pytest.mark.parametrize(
    ("image", "message"), [((12,), "need images"), ((20, 20, 3), "too small")]
)
def test_shapes_that_are_no_images_are_refused(image, message):
    with pytest.raises(ValueError, match=message):
        network(image)


def nature_in(torch):
    """Return convolutions in PyTorch, and a function that applies them."""
    conv, relu = torch.nn.Conv2d, torch.relu
    layers = [conv(3, 32, 8, 4), conv(32, 64, 4, 2), conv(64, 64, 3, 1)]

    def apply_network(image):
        for layer in layers:
            image = relu(layer(image))
        return image

    return layers, apply_network


def residual_in(torch):
    """Return the network of IMPALA's authors: thrice a pooled layer and two blocks."""
    conv, relu = torch.nn.Conv2d, torch.relu
    layers = [
        conv(inputs if i == 0 else outputs, outputs, 3, padding=1)
        for inputs, outputs in ((3, 16), (16, 32), (32, 32))
        for i in range(5)
    ]

    def apply_network(image):
        for a, b, c, d, e in (layers[:5], layers[5:10], layers[10:]):
            image = torch.max_pool2d(a(image), 3, 2, 1)
            image = image + c(relu(b(relu(image))))
            image = image + e(relu(d(relu(image))))
        return relu(image)

    return layers, apply_network


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_bias", [True, False])
def test_pytorch_computes_the_same(kind, use_bias):
    torch = pytest.importorskip("torch")
    ours = network(use_bias=use_bias, kind=kind)
    nn = torch.nn
    convs, apply_network = {"nature": nature_in, "residual": residual_in}[kind](torch)
    size = {"nature": 1024, "residual": 2048}[kind]
    linear, actor, critic = nn.Linear(size, 512), nn.Linear(528, 15), nn.Linear(528, 1)
    layers = [
        *zip(convs, ours.convolutions, strict=True),
        (linear, ours.trunk[0]),
        (actor, ours.actor.logits),
        (critic, ours.critic),
    ]
    with torch.no_grad():
        for layer, own in layers:
            layer.weight.copy_(torch.tensor(np.asarray(own.weight)))
            bias = np.asarray(own.bias) if use_bias else np.zeros(layer.bias.shape)
            layer.bias.copy_(torch.tensor(bias))
        rng = np.random.default_rng(0)
        image, extra = rng.random(PROCGEN, np.float32), rng.random(16, np.float32)
        features = apply_network(torch.tensor(image)[None])
        features = torch.relu(linear(features.flatten(1)))
        features = torch.cat([features, torch.tensor(extra)[None]], 1)
        logits, value = actor(features)[0], critic(features)[0, 0]
    policy, ours_value = ours(jnp.asarray(np.concatenate([image.ravel(), extra])))
    np.testing.assert_allclose(policy.logits, logits.numpy(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours_value, value.numpy(), rtol=1e-3, atol=1e-4)
