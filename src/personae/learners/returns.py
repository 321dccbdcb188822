"""Returns and advantages of one trajectory; callers `vmap` over environments.

Names carry time: `v_tm1` is the value of the state that the action was taken in, `r_t`
and `discount_t` belong to the action's result. `discount_t` is gamma, or 0 where an
episode ended.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.types import Scalar

Trajectory = Float[Array, " time"]


class VTrace(NamedTuple):
    """Targets and advantages of a trajectory in which another policy acted."""

    target_tm1: Trajectory
    """The target of each state's value."""
    advantage_tm1: Trajectory
    """The factor of each step's policy gradient, importance weight included."""


def advantages(
    r_t: Trajectory,
    discount_t: Trajectory,
    v_tm1: Trajectory,
    bootstrap_value: Scalar,
    lambda_: float,
) -> Trajectory:
    """Return generalised advantage estimates (Schulman et al., 2016, Eq. 16).

    Args:
        r_t: Rewards.
        discount_t: Discounts; 0 where an episode ended.
        v_tm1: Values of the states in which the actions were taken.
        bootstrap_value: Value of the state after the last step.
        lambda_: Weight of longer estimates; 1 gives returns minus values.
    """
    # Where an episode ended this is the next one's value, but its discount is 0.
    v_t = jnp.append(v_tm1[1:], bootstrap_value)
    delta_t = r_t + discount_t * v_t - v_tm1

    def accumulate(carry: Scalar, step: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        delta, discount = step
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

    def accumulate(carry: Scalar, step: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        reward, discount = step
        total = reward + discount * carry
        return total, total

    _, result = jax.lax.scan(
        accumulate, bootstrap_value, (r_t, discount_t), reverse=True
    )
    return result


def vtrace(
    r_t: Trajectory,
    discount_t: Trajectory,
    v_tm1: Trajectory,
    bootstrap_value: Scalar,
    rho_tm1: Trajectory,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
    policy_rho_clip: float = 1.0,
) -> VTrace:
    """Return V-trace's targets and advantages (Espeholt et al., 2018, Eq. 1 and 4).

    Args:
        r_t: Rewards.
        discount_t: Discounts; 0 where an episode ended.
        v_tm1: Values of the states in which the actions were taken.
        bootstrap_value: Value of the state after the last step.
        rho_tm1: Probability of each action under the current policy, divided by that
            under the policy that acted.
        rho_clip: Largest importance weight in the value targets.
        c_clip: Largest weight of a correction that is carried back in time.
        policy_rho_clip: Largest importance weight of the policy gradient.
    """
    v_t = jnp.append(v_tm1[1:], bootstrap_value)
    delta_t = jnp.minimum(rho_tm1, rho_clip) * (r_t + discount_t * v_t - v_tm1)
    # Without the factor lambda, which is 1 in the published runs.
    c_tm1 = jnp.minimum(rho_tm1, c_clip)

    def accumulate(
        carry: Scalar, step: tuple[Scalar, Scalar, Scalar]
    ) -> tuple[Scalar, Scalar]:
        delta, discount, c = step
        correction = delta + discount * c * carry
        return correction, correction

    _, correction_tm1 = jax.lax.scan(
        accumulate, jnp.zeros(()), (delta_t, discount_t, c_tm1), reverse=True
    )
    target_tm1 = v_tm1 + correction_tm1
    # The advantage bootstraps from the corrected targets, not from the values.
    target_t = jnp.append(target_tm1[1:], bootstrap_value)
    weight_tm1 = jnp.minimum(rho_tm1, policy_rho_clip)
    return VTrace(target_tm1, weight_tm1 * (r_t + discount_t * target_t - v_tm1))
