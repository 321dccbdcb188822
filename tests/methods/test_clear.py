"""CLEAR's loss against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones.distributions import Categorical
from personae.learners import IMPALA
from personae.learners.contract import ReplayBatch, ReplayTerm, by_env
from personae.methods.clear import CLEAR, CLEAROptions
from personae.types import ReplayedSteps, Rollout, Transition

KEY = jax.random.key(0)


def network_of(parameters, key):
    logits, value = parameters
    return lambda observation: (Categorical(logits), value + 0 * observation.sum())


def test_cloning_by_hand():
    clear = CLEAR(CLEAROptions(policy_cloning=2.0, value_cloning=3.0))
    stored = ReplayedSteps(
        jnp.zeros((1, 1)), Categorical(jnp.log(jnp.asarray([[0.5, 0.5]]))), jnp.ones(1)
    )
    outputs = Categorical(jnp.log(jnp.asarray([[0.25, 0.75]]))), jnp.full(1, 3.0)
    # KL(stored || outputs) = 0.5 ln 2 + 0.5 ln (2 / 3); values differ by 2.
    divergence = 0.5 * np.log(2) + 0.5 * np.log(2 / 3)
    losses = clear.replay_loss(None, outputs, stored)
    np.testing.assert_allclose(losses, [2 * divergence + 3 * 4], rtol=1e-6)


def test_equal_outputs_have_no_loss():
    clear, logits = CLEAR(), jnp.asarray([0.3, -1.0])
    stored = ReplayedSteps(jnp.zeros((1, 1)), Categorical(logits[None]), jnp.ones(1))
    outputs = Categorical(logits[None]), jnp.ones(1)
    np.testing.assert_allclose(
        clear.replay_loss(None, outputs, stored), [0.0], atol=1e-7
    )


def random_rollout(seed, learner):
    random = np.random.RandomState(seed)
    shape = (learner.rollout_length, learner.num_envs)

    def normal():
        return jnp.asarray(random.randn(*shape).astype(np.float32))

    steps = Transition(
        observation=normal()[..., None],
        action=jnp.asarray(random.randint(0, 2, shape)),
        log_prob=-jnp.abs(normal()),
        value=normal(),
        reward=normal(),
        done=jnp.asarray(random.rand(*shape) < 0.2),
    )
    return Rollout(steps, jnp.zeros((shape[1], 1)))


START = (jnp.asarray([0.2, -0.1]), jnp.asarray(0.3))


def updated(learner, replay_term=None):
    """Update once from new experience; return the new parameters and the metrics."""
    _, changed, metrics, _ = learner.update(
        learner.init(START),
        START,
        network_of,
        lambda _: jnp.zeros(()),
        random_rollout(0, learner),
        jnp.zeros(()),
        KEY,
        replay_term,
    )
    return changed, metrics


def updated_with_replay(learner, available):
    """Update once with replay; also return the replayed batch and its loss."""
    old = by_env(random_rollout(1, learner))
    policy = Categorical(jnp.broadcast_to(jnp.asarray([0.7, 0.0]), (4, 8, 2)))
    replay_batch = ReplayBatch(old, policy, jnp.full(4, available))

    def loss_of(parameters, steps, outputs, key):
        return CLEAR().replay_loss(None, outputs, steps)

    replay_term = ReplayTerm(replay_batch, network_of, loss_of, off_policy=True)
    return replay_batch, loss_of, *updated(learner, replay_term)


def test_an_update_adds_up_new_and_old_experience_and_cloning():
    """With plain gradient descent, as far as RMSprop with a huge eps is that."""
    learner = IMPALA(
        num_envs=4,
        rollout_length=8,
        batch_size=4,
        optimiser_eps=1e6,
        learning_rate=1e6,
        max_gradient_norm=1e9,
    )
    replay_batch, loss_of, changed, metrics = updated_with_replay(
        learner, available=True
    )
    new = by_env(random_rollout(0, learner))
    of_new = learner.gradient(START, network_of, new, KEY)
    of_old = learner.gradient(START, network_of, replay_batch.unrolls, KEY)

    def cloning(parameters):
        steps = replay_batch.all_steps
        outputs = jax.vmap(network_of(parameters, KEY))(steps.observation)
        return jnp.sum(loss_of(parameters, steps, outputs, KEY))

    of_cloning = jax.grad(cloning)(START)
    for before, after, *gradients in zip(
        START, changed, of_new, of_old, of_cloning, strict=True
    ):
        np.testing.assert_allclose(before - after, sum(gradients), rtol=1e-3, atol=1e-5)
    assert float(metrics["replay_loss"]) == pytest.approx(
        float(cloning(START)) / 32, rel=1e-5
    )


def test_an_empty_store_has_no_effect():
    learner = IMPALA(num_envs=4, rollout_length=8, batch_size=2)
    *_, changed, metrics = updated_with_replay(learner, available=False)
    alone, _ = updated(learner)
    jax.tree.map(np.testing.assert_array_equal, changed, alone)
    assert float(metrics["replay_loss"]) == 0.0


@pytest.mark.parametrize(
    "options",
    [{"frames": 0}, {"share": 0.0}, {"policy_cloning": -1.0}, {"value_cloning": -1.0}],
)
def test_impossible_options_are_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=name):
        CLEAROptions(**options)
