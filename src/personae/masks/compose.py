"""Eq. 2: a new task's scores as a softmax-weighted sum of its own and stored scores.

Coefficients are rows of length `capacity + 1`: one entry per slot of the bank and,
last, the new mask. Inactive slots have coefficient exactly 0. The rows of all layers
are one array, since many small arrays cost a GPU as much as many matrices.
"""

from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

Composition = Literal["ri", "lc", "blc"]
COMPOSITIONS: tuple[Composition, ...] = get_args(Composition)


def initial_coefficients(
    rule: Composition, active: Bool[Array, " slots"]
) -> Float[Array, " slots+1"]:
    """Return the coefficients at the start of a task.

    With k stored masks the new one has 1 (RI), 1/(k+1) (LC) or 1/2 (BLC); the stored
    ones share the rest equally.
    """
    k = jnp.sum(active)
    share: dict[Composition, Array | float] = {"ri": 1.0, "lc": 1 / (k + 1), "blc": 0.5}
    new = jnp.where(k == 0, 1.0, share[rule])
    # `where` computes both sides: without `maximum` an empty bank divides by 0.
    stored = jnp.where(active, (1 - new) / jnp.maximum(k, 1), 0)
    return jnp.append(stored, new).astype(jnp.float32)


def initial_logits(
    rule: Composition, active: Bool[Array, " slots"]
) -> Float[Array, " slots+1"]:
    """Return logits whose softmax gives the initial coefficients.

    Note: the published LC starts from equal logits 1/(k+1) instead of log(1/(k+1)).
    The softmax is the same; with logarithms LC and BLC agree bit for bit on task 2.
    """
    coefficients = initial_coefficients(rule, active)
    # Inactive slots are masked before every softmax; log(0) would only spread NaNs.
    return jnp.log(jnp.where(coefficients > 0, coefficients, 1))


def softmax_coefficients(
    logits: Float[Array, "*rows entries"], active: Bool[Array, " slots"]
) -> Float[Array, "*rows entries"]:
    """Normalise logits over the active slots and the new mask."""
    # Masked before the softmax: -inf times 0 afterwards would be NaN.
    return jax.nn.softmax(jnp.where(jnp.append(active, True), logits, -jnp.inf))


def compose_layer(
    scores: Float[Array, "*shape"],
    stored: Float[Array, "slots *shape"],
    coefficients: Float[Array, " slots+1"],
) -> Float[Array, "*shape"]:
    """Return b_new S + sum_i b_i S_i*; the stored scores receive no gradient."""
    flat = jax.lax.stop_gradient(stored).reshape(stored.shape[0], -1)
    # One matrix-vector product: on CPUs several times faster than a summed product.
    return coefficients[-1] * scores + (coefficients[:-1] @ flat).reshape(scores.shape)


def compose(
    scores: PyTree[Array],
    stored: PyTree[Array],
    logits: Float[Array, "rows entries"],
    active: Bool[Array, " slots"],
) -> PyTree[Array]:
    """Compose every layer.

    Args:
        scores: The new task's own scores.
        stored: The scores in the bank: for each layer those of all slots, stacked.
        logits: One row per layer, in the order of the leaves, or one for all layers.
        active: The slots that take part.

    Returns:
        Scores in the form of `scores`; the gradient reaches `scores` and `logits`.
    """
    leaves, structure = jax.tree.flatten(scores)
    rows = softmax_coefficients(logits, active)
    rows = jnp.broadcast_to(rows, (len(leaves), rows.shape[1]))
    layers = zip(leaves, jax.tree.leaves(stored), rows, strict=True)
    composed = [compose_layer(*layer) for layer in layers]
    return jax.tree.unflatten(structure, composed)
