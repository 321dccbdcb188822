import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from personae.learners.returns import advantages, discounted_returns


def gae_loop(rewards, dones, values, bootstrap, gamma, lambda_):
    result, following, advantage = [], bootstrap, 0.0
    for t in reversed(range(len(rewards))):
        alive = 0.0 if dones[t] else 1.0
        delta = rewards[t] + gamma * alive * following - values[t]
        advantage = delta + gamma * lambda_ * alive * advantage
        following = values[t]
        result.append(advantage)
    return np.array(result[::-1])


def returns_loop(rewards, dones, bootstrap, gamma):
    result, total = [], bootstrap
    for t in reversed(range(len(rewards))):
        total = rewards[t] + gamma * (0.0 if dones[t] else 1.0) * total
        result.append(total)
    return np.array(result[::-1])


@settings(max_examples=30)
@given(st.integers(0, 2**31 - 1), st.floats(0.5, 1), st.floats(0, 1))
def test_against_a_loop(seed, gamma, lambda_):
    random = np.random.RandomState(seed)
    rewards, values = random.randn(2, 16)
    dones, bootstrap = random.rand(16) < 0.2, random.randn()
    r_t, v_tm1 = jnp.asarray(rewards), jnp.asarray(values)
    discount_t, last = jnp.asarray(gamma * (1.0 - dones)), jnp.asarray(bootstrap)
    np.testing.assert_allclose(
        advantages(r_t, discount_t, v_tm1, last, lambda_),
        gae_loop(rewards, dones, values, bootstrap, gamma, lambda_),
        rtol=1e-4,
        atol=1e-4,
    )
    np.testing.assert_allclose(
        discounted_returns(r_t, discount_t, last),
        returns_loop(rewards, dones, bootstrap, gamma),
        rtol=1e-4,
        atol=1e-4,
    )


def test_by_hand():
    r_t = jnp.array([1.0, 0.0, 2.0])
    discount_t = jnp.array([0.5, 0.0, 0.5])
    v_tm1 = jnp.array([1.0, 2.0, 4.0])
    # The second step ends an episode: nothing flows back over it.
    np.testing.assert_allclose(
        discounted_returns(r_t, discount_t, jnp.asarray(8.0)), [1, 0, 6]
    )
    np.testing.assert_allclose(
        advantages(r_t, discount_t, v_tm1, jnp.asarray(8.0), 0.5), [0.5, -2.0, 2.0]
    )


def test_with_lambda_one_advantage_plus_value_is_the_return():
    random = np.random.RandomState(0)
    r_t, v_tm1 = jnp.asarray(random.randn(2, 20))
    discount_t, last = jnp.full(20, 0.9), jnp.asarray(0.7)
    np.testing.assert_allclose(
        advantages(r_t, discount_t, v_tm1, last, 1.0) + v_tm1,
        discounted_returns(r_t, discount_t, last),
        rtol=1e-4,
        atol=1e-5,
    )
