import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_networks import Table, parameters, random_rollout

from personae.backbones import SharedMLP
from personae.learners import PPO
from personae.types import Rollout, Transition

KEY = jax.random.key(0)
START = jnp.zeros(())


def test_the_loss_by_hand():
    learner = PPO()
    samples = learner.samples(Table(parameters()), random_rollout(learner))
    batch = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:8], samples)
    loss, terms = learner._loss(
        parameters(),
        lambda parameters, key: Table(parameters),
        lambda parameters: jnp.asarray(0.25),
        batch,
        KEY,
    )
    p = np.exp([0.2, -0.1]) / np.exp([0.2, -0.1]).sum()
    ratio = p[np.asarray(batch.action)] / 0.5
    advantage = np.asarray(batch.advantage)
    surrogate = np.minimum(ratio * advantage, np.clip(ratio, 0.9, 1.1) * advantage)
    value_loss = np.mean((np.asarray(batch.target) - 0.3) ** 2)
    entropy = -(p * np.log(p)).sum()
    expected = -surrogate.mean() + 0.5 * value_loss - 0.1 * entropy + 0.25
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(terms["entropy"], entropy, rtol=1e-5)


def test_advantages_are_normalised_over_the_whole_batch_without_bias():
    learner = PPO()
    samples = learner.samples(Table(parameters()), random_rollout(learner))
    advantage = np.asarray(samples.advantage)
    assert advantage.shape == (128, 4)
    np.testing.assert_allclose(advantage.mean(), 0, atol=1e-6)
    np.testing.assert_allclose(advantage.std(ddof=1), 1, rtol=1e-4)


def test_the_value_target_is_the_plain_return():
    learner = PPO(num_envs=1, rollout_length=2, num_minibatches=1, discount=0.5)
    data = random_rollout(learner)
    steps = data.steps._replace(
        reward=jnp.array([[1.0], [2.0]]), done=jnp.array([[False], [False]])
    )
    target = learner.samples(Table(parameters()), data._replace(steps=steps)).target
    np.testing.assert_allclose(target[:, 0], [1 + 0.5 * 2 + 0.25 * 0.3, 2.15])


def test_the_value_target_with_lambda_is_advantage_plus_value():
    plain, mixed = PPO(), PPO(value_lambda=0.95)
    data = random_rollout(plain)
    targets = [p.samples(Table(parameters()), data).target for p in (plain, mixed)]
    assert not np.allclose(*targets)
    nearly = PPO(value_lambda=1 - 1e-7).samples(Table(parameters()), data).target
    np.testing.assert_allclose(nearly, targets[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("epochs", [1, 3])
def test_one_epoch_makes_64_updates_of_8_samples(epochs):
    learner = PPO(epochs=epochs)
    samples = learner.samples(Table(parameters()), random_rollout(learner))
    batches = learner.batches(samples, KEY)
    assert batches.observation.shape == (64, 8, 1)
    # Every step is in exactly one mini-batch, with its own action.
    order = np.asarray(batches.observation).ravel().astype(int)
    np.testing.assert_array_equal(np.sort(order), np.arange(512))
    np.testing.assert_array_equal(
        np.asarray(batches.action).ravel(), np.asarray(samples.action).ravel()[order]
    )
    # With a constant unit gradient the second moment counts the updates.
    gradient_free = PPO(epochs=epochs, entropy_coefficient=0.0, value_coefficient=0.0)
    assert _count_updates(gradient_free) == 64 * epochs


def _count_updates(learner):
    """With gradient 1 the second moment is 1 - 0.99^n after n updates."""
    data = random_rollout(learner)
    flat = data.steps._replace(reward=jnp.zeros((128, 4)), value=jnp.zeros((128, 4)))
    start = (jnp.zeros(2), jnp.asarray(0.0))
    state, *_ = learner.update(
        learner.init(start),
        start,
        lambda parameters, key: Table((jax.lax.stop_gradient(parameters[0]), 0.0)),
        lambda parameters: parameters[1],
        data._replace(steps=flat),
        START,
        KEY,
    )
    second_moment = next(
        leaf.nu[1]
        for leaf in jax.tree.leaves(state, is_leaf=lambda s: hasattr(s, "nu"))
        if hasattr(leaf, "nu")
    )
    return round(float(np.log(1 - second_moment) / np.log(0.99)))


def test_mini_batches_that_do_not_divide_the_rollout_are_refused():
    with pytest.raises(ValueError, match="512 steps cannot be cut into 7"):
        PPO(num_minibatches=7)


def test_ppo_solves_a_continuous_bandit():
    """Reward -|a - 0.4|^2: the mean of a Gaussian policy moves to 0.4."""
    learner = PPO(num_minibatches=4, learning_rate=3e-3, entropy_coefficient=0.0)
    network = SharedMLP(1, (8,), gym.spaces.Box(-1, 1, (1,)), True, KEY)
    params, static = jax.tree.flatten(network)
    shape = (128, 4)

    def iteration(carry, key):
        state, params = carry
        network = jax.tree.unflatten(static, params)
        inputs = jnp.ones((*shape, 1))
        policy, value = jax.vmap(jax.vmap(network))(inputs)
        action = policy.sample(key)
        reward = -((action[..., 0] - 0.4) ** 2)
        steps = Transition(
            inputs,
            action,
            policy.log_prob(action),
            value,
            reward,
            jnp.ones(shape, bool),
        )
        state, params, *_ = learner.update(
            state,
            params,
            lambda p, _: jax.tree.unflatten(static, p),
            lambda p: jnp.zeros(()),
            Rollout(steps, inputs[0]),
            START,
            key,
        )
        return (state, params), reward.mean()

    start = (learner.init(params), params)
    (_, trained), rewards = jax.lax.scan(iteration, start, jax.random.split(KEY, 60))
    policy, _ = jax.tree.unflatten(static, trained)(jnp.ones(1))
    assert abs(float(policy.mode()[0]) - 0.4) < 0.1
    assert rewards[-1] > rewards[0]


def test_steps_in_which_nothing_was_done_enter_no_loss():
    """The content of a step that only started an episode has no effect."""
    learner = PPO(num_envs=2, rollout_length=8, num_minibatches=1)
    data = random_rollout(learner)
    done = jnp.zeros((8, 2), bool).at[3].set(True)
    valid = jnp.ones((8, 2), bool).at[4].set(False)
    network_of = lambda parameters, key: Table(parameters)  # noqa: E731
    gradients = []
    for nonsense in (0.0, 1e3):
        steps = data.steps._replace(
            done=done,
            valid=valid,
            reward=data.steps.reward.at[4].set(nonsense),
            value=data.steps.value.at[4].set(nonsense),
        )
        samples = learner.samples(Table(parameters()), data._replace(steps=steps))
        counted = np.asarray(samples.advantage)[np.asarray(valid)]
        np.testing.assert_allclose(counted.mean(), 0, atol=1e-6)
        np.testing.assert_allclose(counted.std(ddof=1), 1, rtol=1e-4)
        batch = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), samples)
        gradients.append(learner.gradient(parameters(), network_of, batch, KEY))
    jax.tree.map(np.testing.assert_array_equal, *gradients)
    without_valid = batch._replace(valid=None)
    other = learner.gradient(parameters(), network_of, without_valid, KEY)
    assert not np.allclose(other[1], gradients[1][1])
