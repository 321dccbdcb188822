import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from personae.learners.returns import advantages, discounted_returns, vtrace


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


def vtrace_by_definition(rewards, discounts, values, bootstrap, rho, clips):
    """The sum of Eq. 1 in Espeholt et al. (2018), term by term."""
    rho_clip, c_clip, policy_clip = clips
    following = np.append(values, bootstrap)
    weight, trace = np.minimum(rho, rho_clip), np.minimum(rho, c_clip)
    targets = []
    for s in range(len(rewards)):
        target = values[s]
        for t in range(s, len(rewards)):
            delta = rewards[t] + discounts[t] * following[t + 1] - following[t]
            carried = np.prod(discounts[s:t]) * np.prod(trace[s:t])
            target += carried * weight[t] * delta
        targets.append(target)
    after = np.append(targets, bootstrap)[1:]
    advantage = rewards + discounts * after - values
    return np.array(targets), np.minimum(rho, policy_clip) * advantage


@settings(max_examples=30)
@given(st.integers(0, 2**31 - 1), st.tuples(*[st.floats(0.5, 3)] * 3))
def test_vtrace_against_its_definition(seed, clips):
    random = np.random.RandomState(seed)
    rewards, values = random.randn(2, 12)
    discounts, bootstrap = 0.9 * (random.rand(12) > 0.2), random.randn()
    rho = np.exp(random.randn(12))
    actual = vtrace(
        *map(jnp.asarray, (rewards, discounts, values, bootstrap, rho)), *clips
    )
    expected = vtrace_by_definition(rewards, discounts, values, bootstrap, rho, clips)
    for value, target in zip(actual, expected, strict=True):
        np.testing.assert_allclose(value, target, rtol=1e-4, atol=1e-4)


def test_vtrace_by_hand():
    r_t = jnp.array([1.0, 2.0])
    discount_t = jnp.array([0.5, 0.5])
    v_tm1 = jnp.array([2.0, 4.0])
    rho_tm1 = jnp.array([0.5, 4.0])
    target, advantage = vtrace(r_t, discount_t, v_tm1, jnp.asarray(8.0), rho_tm1)
    # delta = .5 (1 + .5 * 4 - 2) = .5 and 1 (2 + .5 * 8 - 4) = 2, which is carried back
    # with .5 * .5.
    np.testing.assert_allclose(target, [2 + 0.5 + 0.5, 4 + 2])
    np.testing.assert_allclose(advantage, [0.5 * (1 + 0.5 * 6 - 2), 2 + 0.5 * 8 - 4])


@given(st.integers(0, 2**31 - 1))
def test_vtrace_of_ones_own_experience_is_the_plain_return(seed):
    random = np.random.RandomState(seed)
    r_t, v_tm1 = jnp.asarray(random.randn(2, 10))
    discount_t = jnp.asarray(0.9 * (random.rand(10) > 0.2))
    last = jnp.asarray(random.randn())
    actual = vtrace(r_t, discount_t, v_tm1, last, jnp.ones(10))
    plain = discounted_returns(r_t, discount_t, last)
    np.testing.assert_allclose(actual.target_tm1, plain, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        actual.advantage_tm1, plain - v_tm1, rtol=1e-4, atol=1e-4
    )
