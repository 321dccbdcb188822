"""Returns and advantages of one trajectory; callers `vmap` over environments.

Names carry time: `v_tm1` is the value of the state that the action was taken in, `r_t`
and `discount_t` what came of it. `discount_t` is gamma, or 0 where an episode ended.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.types import Scalar

Trajectory = Float[Array, " time"]


def advantages(
    r_t: Trajectory,
    discount_t: Trajectory,
    v_tm1: Trajectory,
    bootstrap_value: Scalar,
    lambda_: float,
) -> Trajectory:
    """Return generalised advantage estimates (Schulman et al., 2016, Eq. 16)."""
    v_t = jnp.append(v_tm1[1:], bootstrap_value)
    delta_t = r_t + discount_t * v_t - v_tm1

    def accumulate(carry: Scalar, now: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        delta, discount = now
        advantage = delta + discount * lambda_ * carry
        return advantage, advantage

    _, result = jax.lax.scan(
        accumulate, jnp.zeros(()), (delta_t, discount_t), reverse=True
    )
    return result


def discounted_returns(
    r_t: Trajectory, discount_t: Trajectory, bootstrap_value: Scalar
) -> Trajectory:
    """Return the discounted sums of rewards, bootstrapped after the last step."""

    def accumulate(carry: Scalar, now: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        reward, discount = now
        total = reward + discount * carry
        return total, total

    _, result = jax.lax.scan(
        accumulate, bootstrap_value, (r_t, discount_t), reverse=True
    )
    return result
