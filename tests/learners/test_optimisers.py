import jax.numpy as jnp
import numpy as np
import optax
import pytest

from personae.learners.optimisers import make_optimiser


def torch_rmsprop(parameter, gradients, learning_rate, eps, max_norm):
    """Torch's formula: decay 0.99, no momentum, not centred, eps outside the root."""
    square = np.zeros_like(parameter)
    for gradient in gradients:
        norm = np.sqrt((gradient**2).sum())
        clipped = gradient * min(1.0, max_norm / norm)
        square = 0.99 * square + 0.01 * clipped**2
        parameter = parameter - learning_rate * clipped / (np.sqrt(square) + eps)
    return parameter


@pytest.mark.parametrize("eps", [1e-8, 1e-2])
def test_rmsprop_follows_torchs_formula(eps):
    random = np.random.RandomState(0)
    start, gradients = random.randn(7), 3 * random.randn(12, 7)
    optimiser = make_optimiser("rmsprop", 0.01, eps, max_gradient_norm=5.0)
    parameter = jnp.asarray(start)
    state = optimiser.init(parameter)
    for gradient in gradients:
        updates, state = optimiser.update(jnp.asarray(gradient), state)
        parameter = optax.apply_updates(parameter, updates)
    expected = torch_rmsprop(start, gradients, 0.01, eps, 5.0)
    np.testing.assert_allclose(parameter, expected, rtol=1e-4, atol=1e-5)
    norms = np.sqrt((gradients**2).sum(1))
    assert norms.min() < 5 < norms.max()  # clipped in some steps, not in others
