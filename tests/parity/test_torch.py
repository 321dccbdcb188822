"""Masked layers and RMSprop against independent torch code (skipped without torch)."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from personae.backbones import signed_constant
from personae.learners.optimisers import make_optimiser
from personae.masks import choose_by_layer, continuous, modulate, threshold
from personae.masks.compose import compose, initial_logits

torch = pytest.importorskip("torch", reason="the parity tests need torch")
import equinox as eqx  # noqa: E402

RULES = {"binary": threshold(), "continuous": continuous()}


class StraightThrough(torch.autograd.Function):
    """Thresholded scores with the gradient of the identity."""

    @staticmethod
    def forward(ctx, scores, kind):
        on = (scores >= 0).float()
        return on if kind == "binary" else on * scores

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def torch_composed(new, stored, logits):
    """Eq. 2 as one would write it in torch."""
    weights = torch.softmax(logits, 0)
    stacked = torch.stack([*(s.detach() for s in stored), new])
    return (weights.reshape(-1, *[1] * new.dim()) * stacked).sum(0)


def tensors(*arrays):
    return [torch.tensor(np.array(a), requires_grad=True) for a in arrays]


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("layer", ["linear", "conv"])
@pytest.mark.parametrize("composition", ["ri", "lc", "blc"])
def test_masked_layer_forward_and_gradients(kind, layer, composition):
    keys = jax.random.split(jax.random.key(0), 6)
    if layer == "linear":
        network = eqx.nn.Linear(6, 5, use_bias=False, key=keys[0])
        x = jax.random.normal(keys[1], (7, 6))
        apply = torch.nn.functional.linear
    else:
        network = eqx.nn.Conv2d(2, 3, 3, use_bias=False, key=keys[0])
        x = jax.random.normal(keys[1], (7, 2, 5, 5))
        apply = torch.nn.functional.conv2d
    backbone = signed_constant(network, keys[2])
    shape = backbone.weight.shape
    new = jax.random.normal(keys[3], shape)
    stored = jax.random.normal(keys[4], (3, *shape))
    active = jnp.ones(3, bool)
    logits = initial_logits(composition, active) + 0.3 * jax.random.normal(
        keys[5], (4,)
    )

    def loss(new, logits):
        scores = new
        if composition != "ri":
            scores = compose(new, stored, logits[None], active)
        tree = eqx.tree_at(lambda n: n.weight, backbone, scores)
        masked = modulate(backbone, tree, choose_by_layer(RULES[kind]))
        return jnp.sum(jax.vmap(masked)(x) ** 2)

    value, (g_new, g_logits) = jax.value_and_grad(loss, (0, 1))(new, logits)

    t_new, t_logits = tensors(new, logits)
    t_scores = t_new
    if composition != "ri":
        t_scores = torch_composed(t_new, tensors(*stored), t_logits)
    weight = torch.tensor(np.array(backbone.weight))
    mask = StraightThrough.apply(t_scores, kind)
    t_value = (apply(torch.tensor(np.array(x)), weight * mask) ** 2).sum()
    t_value.backward()

    np.testing.assert_allclose(value, t_value.item(), rtol=1e-5)
    np.testing.assert_allclose(g_new, t_new.grad.numpy(), rtol=1e-4, atol=1e-4)
    if composition != "ri":
        np.testing.assert_allclose(
            g_logits, t_logits.grad.numpy(), rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize(
    ("name", "factory"),
    [
        ("rmsprop", lambda p: torch.optim.RMSprop(p, lr=0.01, eps=1e-8)),
        ("adam", lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-8)),
    ],
)
def test_optimisers_take_torchs_steps(name, factory):
    random = np.random.RandomState(0)
    start = random.randn(9).astype(np.float32)
    gradients = 3 * random.randn(20, 9).astype(np.float32)
    parameter = torch.nn.Parameter(torch.tensor(start))
    reference = factory([parameter])
    optimiser = make_optimiser(name, 0.01, 1e-8, max_gradient_norm=5.0)
    value = jnp.asarray(start)
    state = optimiser.init(value)
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        torch.nn.utils.clip_grad_norm_([parameter], 5.0)
        reference.step()
        updates, state = optimiser.update(jnp.asarray(gradient), state)
        value = optax.apply_updates(value, updates)
    np.testing.assert_allclose(value, parameter.detach().numpy(), rtol=1e-4, atol=1e-5)
