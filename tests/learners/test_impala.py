from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_networks import Table, parameters, random_rollout

from personae.backbones import Categorical
from personae.learners import IMPALA
from personae.learners.impala import _unrolls_at_once
from personae.learners.returns import vtrace
from personae.types import Rollout, Transition

KEY = jax.random.key(0)
START = jnp.zeros(())
SMALL = IMPALA(num_envs=4, rollout_length=8, batch_size=4)


def network_of(parameters, key):
    return Table(parameters)


def free(parameters):
    return jnp.zeros(())


def update(learner, data, progress=0.0, penalty=free, start=None):
    start = parameters() if start is None else start
    return learner.update(
        learner.init(start),
        start,
        network_of,
        penalty,
        data,
        jnp.asarray(progress),
        KEY,
    )


def by_env(data):
    swapped = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), data.steps)
    return Rollout(swapped, data.last_observation)


def test_the_loss_by_hand():
    """A sum over all steps, of which V-trace is tested by itself."""
    data = by_env(random_rollout(SMALL))
    loss, sums = SMALL._loss(parameters(), data, network_of, KEY)
    logits, value = parameters()
    log_p = np.log(np.exp(logits) / np.exp(logits).sum())
    steps = data.steps
    taken = log_p[np.asarray(steps.action)]
    expected = 0.0
    for env in range(4):
        traced = vtrace(
            steps.reward[env],
            0.99 * (1 - steps.done[env]),
            jnp.full(8, value),
            value,
            jnp.exp(taken[env] - steps.log_prob[env]),
        )
        expected -= np.sum(taken[env] * traced.advantage_tm1)
        expected += 0.5 * 0.5 * np.sum((traced.target_tm1 - value) ** 2)
        expected -= 0.01 * 8 * -np.sum(np.exp(log_p) * log_p)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    entropy = -np.sum(np.exp(log_p) * log_p)
    np.testing.assert_allclose(sums["entropy"], 32 * entropy, rtol=1e-4)
    assert sums["steps"] == 32


def test_targets_are_constants_for_the_gradient():
    """The value's gradient is that of (target - v)^2 / 4 with the target held."""
    data = by_env(random_rollout(SMALL))
    gradient = SMALL.gradient(parameters(), network_of, data, KEY)
    logits, value = parameters()
    log_p = jax.nn.log_softmax(logits)
    steps = data.steps
    rho = jnp.exp(log_p[steps.action] - steps.log_prob)
    discounts = 0.99 * (1 - steps.done)
    same = jnp.full((4, 8), value)
    traced = jax.vmap(vtrace)(steps.reward, discounts, same, same[:, 0], rho)
    expected = -0.5 * jnp.sum(traced.target_tm1 - value)
    np.testing.assert_allclose(gradient[1], expected, rtol=1e-4)


def test_each_batch_of_unrolls_makes_one_update():
    """A constant gradient of 1 moves RMSprop by lr / (sqrt(1 - .99^n) + eps) each."""
    learner = IMPALA(num_envs=6, batch_size=2, optimiser_eps=0.01, decay=False)
    data = random_rollout(learner)
    nothing = data.steps._replace(reward=jnp.zeros_like(data.steps.reward))
    start = (jnp.zeros(2), jnp.asarray(0.0))
    _, after, _, unrolls = learner.update(
        learner.init(start),
        start,
        lambda parameters, key: Table((jnp.zeros(2), jnp.asarray(0.0))),
        lambda parameters: parameters[1],
        data._replace(steps=nothing),
        START,
        KEY,
    )
    roots = np.sqrt(1 - 0.99 ** np.arange(1, 4))
    np.testing.assert_allclose(after[1], -np.sum(4e-4 / (roots + 0.01)), rtol=1e-5)
    assert unrolls.steps.reward.shape == (6, 20)
    assert learner.batches(unrolls, KEY).steps.reward.shape == (3, 2, 20)


def test_passes_go_over_the_same_rollout():
    """As if it came again, with the policy of the first time."""
    data = random_rollout(SMALL)
    start = parameters()
    state, once = SMALL.init(start), start
    for _ in range(3):
        state, once, *_ = SMALL.update(state, once, network_of, free, data, START, KEY)
    found = update(replace(SMALL, passes=3), data)[1]
    for ours, theirs in zip(found, once, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_advantages_are_normalised_over_what_counts():
    learner = replace(SMALL, normalise_advantages=True)
    advantage = jnp.asarray([1.0, 3.0, 100.0])
    found = learner._advantage(advantage, jnp.ones(3), jnp.asarray([1, 1, 0]))
    np.testing.assert_allclose(found[:2], [-1, 1], rtol=1e-5)


def test_what_is_taken_from_advantages_is_weighted_as_they_are():
    """Or it would be no baseline for what another policy did."""
    learner = replace(SMALL, normalise_advantages=True)
    rho = jnp.asarray([0.5, 1.0, 0.25])
    found = learner._advantage(rho * 7.0, rho, jnp.ones(3))
    np.testing.assert_allclose(found, 0.0, atol=1e-5)


def test_a_batch_in_which_nothing_counts_weighs_nothing():
    learner = replace(SMALL, normalise_advantages=True)
    found = learner._advantage(jnp.ones(3), jnp.ones(3), jnp.zeros(3))
    assert np.isfinite(found).all()


def test_what_has_moved_far_enough_is_left_alone():
    """Up, if the advantage is positive, and down, if it is negative."""
    learner = replace(SMALL, clip_ratio=0.2)
    advantage = jnp.asarray([2.0, 2.0, 2.0, -2.0, -2.0, -2.0])
    rho = jnp.asarray([1.3, 1.1, 0.1, 0.7, 0.9, 3.0])
    found = learner._advantage(advantage, rho, jnp.ones(6))
    np.testing.assert_array_equal(found, [0, 2, 2, 0, -2, -2])


@pytest.mark.parametrize(("decay", "share"), [(True, 0.25), (False, 1.0)])
def test_the_step_size_falls_linearly_within_a_visit(decay, share):
    learner = IMPALA(num_envs=4, batch_size=4, decay=decay)
    data = random_rollout(learner)
    moved = [
        update(learner, data, progress)[1][1] - parameters()[1]
        for progress in (0.0, 0.75)
    ]
    np.testing.assert_allclose(moved[1], share * moved[0], rtol=1e-4)


def test_steps_in_which_nothing_was_done_enter_no_loss():
    data = random_rollout(SMALL)
    done = jnp.zeros((8, 4), bool).at[3].set(True)
    valid = jnp.ones((8, 4), bool).at[4].set(False)
    found = []
    for nonsense in (0.0, 1e3):
        steps = data.steps._replace(
            done=done, valid=valid, reward=data.steps.reward.at[4].set(nonsense)
        )
        batch = by_env(data._replace(steps=steps))
        found.append(SMALL.gradient(parameters(), network_of, batch, KEY))
    jax.tree.map(np.testing.assert_array_equal, *found)
    everything = by_env(data._replace(steps=steps._replace(valid=None)))
    other = SMALL.gradient(parameters(), network_of, everything, KEY)
    assert not np.allclose(other[1], found[1][1])


def test_unrolls_that_do_not_fill_batches_are_refused():
    with pytest.raises(ValueError, match=r"64 environments .* batches of 7"):
        IMPALA(batch_size=7)


@pytest.mark.slow
def test_impala_solves_a_bandit_from_experience_that_is_out_of_date():
    """The second of two actions pays; a uniform policy acts all the time."""
    learner = IMPALA(num_envs=4, batch_size=4, learning_rate=0.02, decay=False)
    random = np.random.RandomState(0)
    state, trained = learner.init(parameters()), parameters()
    for _ in range(100):
        action = jnp.asarray(random.randint(0, 2, (20, 4)))
        steps = Transition(
            observation=jnp.zeros((20, 4, 1)),
            action=action,
            log_prob=jnp.full((20, 4), jnp.log(0.5)),
            value=jnp.zeros((20, 4)),
            reward=action.astype(jnp.float32),
            done=jnp.ones((20, 4), bool),
        )
        rollout = Rollout(steps, jnp.zeros((4, 1)))
        state, trained, *_ = learner.update(
            state, trained, network_of, free, rollout, START, KEY
        )
    logits, value = trained
    assert jax.nn.softmax(logits)[1] > 0.9
    assert value > 0.6  # what the policy is worth now, not what was collected


def test_images_are_taken_a_few_unrolls_at_a_time():
    """Which gives the same gradient as all of them together."""
    learner = IMPALA(num_envs=8, rollout_length=20, batch_size=8)
    data = by_env(random_rollout(learner))
    rng = np.random.default_rng(0)
    images = jnp.asarray(rng.normal(size=(8, 20, 32, 32, 1)))
    seen = data._replace(
        steps=data.steps._replace(observation=images), last_observation=images[:, 0]
    )
    assert [_unrolls_at_once(each) for each in (data, seen)] == [8, 2]

    def network_of(parameters, key):
        logits, weight = parameters
        return lambda image: (Categorical(logits), weight * image.sum())

    found = learner.gradient(parameters(), network_of, seen, KEY)
    expected, _ = jax.grad(learner._loss, has_aux=True)(
        parameters(), seen, network_of, KEY
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
