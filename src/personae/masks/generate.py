"""The rules g, from real-valued scores to the masks that multiply weights.

A rule is a function `(scores, key) -> mask`. Only the Bernoulli rule uses the key, and
with `key=None` it gives its most likely mask, which is the one to evaluate.
"""

import math
from collections.abc import Callable
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.errors import require
from personae.types import PRNGKey

Scores = Float[Array, "..."]
Rule = Callable[[Scores, PRNGKey | None], Scores]
RuleName = Literal["threshold", "continuous", "top-k", "bernoulli", "ternary"]
BINARY_RULES: tuple[RuleName, ...] = ("threshold", "top-k", "bernoulli")
RULE_NAMES: tuple[RuleName, ...] = get_args(RuleName)


# A comparison has derivative zero, so that scores would never learn without this.
@jax.custom_jvp
def straight_through(value: Scores, surrogate: Scores) -> Scores:
    """Return `value`, but pass gradients as if it were `surrogate`."""
    return value


@straight_through.defjvp
def _straight_through_jvp(primals, tangents):  # type: ignore[no-untyped-def]
    value, _ = primals
    _, surrogate_dot = tangents
    return value, surrogate_dot


def threshold(epsilon: float = 0.0) -> Rule:
    """Return the binary rule 1[s >= epsilon] with identity gradient (Eq. 1).

    Note: the paper writes `>`, the published code compares with `>=`.
    """

    def generate(scores: Scores, key: PRNGKey | None = None) -> Scores:
        return straight_through((scores >= epsilon).astype(scores.dtype), scores)

    return generate


def continuous(epsilon: float = 0.0) -> Rule:
    """Return the continuous rule s * 1[s >= epsilon] with identity gradient (Eq. 3).

    Note: as in the published code, scores below the threshold receive gradient too:
    it is not ReLU's derivative.
    """

    def generate(scores: Scores, key: PRNGKey | None = None) -> Scores:
        return straight_through(jnp.where(scores >= epsilon, scores, 0), scores)

    return generate


def top_k(density: float) -> Rule:
    """Return the binary rule that selects the largest `density` share of each layer."""
    require(0 < density <= 1, f"density must lie in (0, 1], not {density}")

    def generate(scores: Scores, key: PRNGKey | None = None) -> Scores:
        count = max(1, math.ceil(density * scores.size))
        # Not a comparison with the k-th largest score: ties would select more than k.
        _, indices = jax.lax.top_k(jnp.ravel(scores), count)
        mask = jnp.zeros(scores.size, scores.dtype).at[indices].set(1)
        return straight_through(mask.reshape(scores.shape), scores)

    return generate


def bernoulli() -> Rule:
    """Return the rule that samples each entry with probability sigmoid(s).

    The gradient is that of the mean mask sigmoid(s), so no estimator is needed.
    """

    def generate(scores: Scores, key: PRNGKey | None = None) -> Scores:
        p = jax.nn.sigmoid(scores)
        mask = p >= 0.5 if key is None else jax.random.bernoulli(key, p)
        return straight_through(mask.astype(scores.dtype), p)

    return generate


def ternary(epsilon: float = 0.0) -> Rule:
    """Return the rule +1 for s >= epsilon, -1 for s <= -epsilon, 0 between.

    The gradient is the identity. With `epsilon` 0 no weight is ever switched off.
    """

    def generate(scores: Scores, key: PRNGKey | None = None) -> Scores:
        # Not `jnp.sign`, which would switch weights with score 0 off.
        sign = jnp.where(scores >= 0, 1, -1).astype(scores.dtype)
        return straight_through(jnp.where(jnp.abs(scores) >= epsilon, sign, 0), scores)

    return generate


def make_rule(name: RuleName, epsilon: float = 0.0, density: float = 0.5) -> Rule:
    """Build a rule by name; parameters that the rule does not have are ignored."""
    match name:
        case "threshold":
            return threshold(epsilon)
        case "continuous":
            return continuous(epsilon)
        case "top-k":
            return top_k(density)
        case "bernoulli":
            return bernoulli()
        case "ternary":
            return ternary(epsilon)
