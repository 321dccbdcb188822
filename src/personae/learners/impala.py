"""IMPALA: actor-critic learning from experience that is a little out of date.

Unrolls of `rollout_length` steps come from policies a few updates old; V-trace corrects
for it. Each batch of unrolls is used for one update, or for one in each of several
passes. Defaults are the published ones on ProcGen. Losses are sums over all steps of a
batch, and learning rate, `optimiser_eps` and `max_gradient_norm` are meant for such
sums.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TypeAlias

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key, PyTree

from personae.backbones.batching import IMAGES_AT_ONCE, should_batch
from personae.errors import require
from personae.learners.contract import (
    LearnerState,
    NetworkOf,
    PenaltyOf,
    ReplayBatch,
    ReplayTerm,
    by_env,
)
from personae.learners.optimisers import OptimiserName, linear_decay, make_optimiser
from personae.learners.options import check_at_least_one
from personae.learners.returns import vtrace
from personae.serialise import LEFT_OUT
from personae.types import Network, PolicyAndValue, PRNGKey, Rollout, Scalar

ADVANTAGE_EPS = 1e-8
"""Added to the deviation of advantages."""
Carry: TypeAlias = tuple[LearnerState, PyTree[Array]]
"""The learner's state and the trainable, from one update to the next."""
Sums: TypeAlias = dict[str, Array]
"""Sums over all steps of a batch, by name."""
Loss: TypeAlias = Callable[[PyTree[Array], PyTree[Array]], tuple[Scalar, Sums]]
"""A loss of a trainable on a batch, with sums to log."""


@dataclass(frozen=True)
class IMPALA:
    """IMPALA and its hyper-parameters."""

    num_envs: int = 64
    """Environments stepped side by side."""
    rollout_length: int = 20
    """Steps of an unroll."""
    batch_size: int = 32
    """Unrolls per update."""
    passes: int = field(default=1, metadata=LEFT_OUT)
    """Passes over each rollout, batch after batch; V-trace corrects for the changes of
    the policy since the first."""
    optimiser: OptimiserName = "rmsprop"
    """rmsprop or adam, with torch's conventions. Its state starts afresh with each task
    if the task has weights of its own, such as a mask; otherwise it lasts for the whole
    curriculum."""
    learning_rate: float = 4e-4
    """Step size at the start of each visit to a task."""
    decay: bool = True
    """Whether the step size falls to 0, linearly, until the visit ends."""
    optimiser_eps: float = 0.01
    """Term in the optimiser's denominator, outside the root."""
    max_gradient_norm: float = 40.0
    """Global norm to which gradients are clipped."""
    discount: float = 0.99
    """Discount factor gamma."""
    rho_clip: float = 1.0
    """Largest importance weight in the value targets."""
    c_clip: float = 1.0
    """Largest weight with which a correction is carried back in time."""
    policy_rho_clip: float = 1.0
    """Largest importance weight of the policy gradient."""
    clip_ratio: float | None = field(default=None, metadata=LEFT_OUT)
    """Share by which an action's probability may move in the direction of its advantage
    before its gradient becomes 0 (PPO's clip). None sets no bound."""
    normalise_advantages: bool = field(default=False, metadata=LEFT_OUT)
    """Whether the advantages of a batch are brought to mean 0 and deviation 1."""
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus."""
    value_coefficient: float = 0.5
    """Weight of half the squared error of the value."""
    bootstrap_truncated: bool = False
    """Whether the value of the last state is added where a time limit cuts an episode;
    the published runs treat that as the end."""

    def __post_init__(self) -> None:
        check_at_least_one(self, "num_envs", "rollout_length", "batch_size", "passes")
        # A scan over batches needs them all to be of one size.
        require(
            self.num_envs % self.batch_size == 0,
            f"IMPALA: the unrolls of {self.num_envs} environments (num_envs) cannot be "
            f"cut into batches of {self.batch_size} (batch_size)",
        )

    @property
    def off_policy(self) -> bool:
        """True: importance weights correct for much older policies."""
        return True

    def _optimiser(self, progress: Scalar | float) -> optax.GradientTransformation:
        """Return the optimiser at a point of the visit; its state is always the same.

        Note: all updates of one iteration have the same step size.
        """
        learning_rate: Scalar | float = self.learning_rate
        if self.decay:
            learning_rate = linear_decay(self.learning_rate, progress)
        return make_optimiser(
            self.optimiser,
            learning_rate,
            self.optimiser_eps,
            self.max_gradient_norm,
        )

    def init(self, trainable: PyTree[Array]) -> LearnerState:
        """Return a fresh optimiser state."""
        # The step size is no part of the state, so any progress will do.
        return self._optimiser(0.0).init(trainable)

    def update(
        self,
        state: LearnerState,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        penalty_of: PenaltyOf,
        rollout: Rollout,
        progress: Scalar,
        key: PRNGKey,
        replay_term: ReplayTerm | None = None,
    ) -> tuple[LearnerState, PyTree[Array], Mapping[str, Scalar], Rollout]:
        """Make one update from each batch of unrolls, replayed ones included."""
        unrolls = by_env(rollout)
        batches = self.batches(unrolls, key)
        number = self.batches_per_rollout
        # `batches` had the same key, but keeps the order and draws nothing from it.
        keys = jax.random.split(key, (self.passes, number))
        optimiser = self._optimiser(progress)
        replay = None if replay_term is None else _split(replay_term.batch, number)

        def update_batch(
            carry: Carry, inputs: tuple[Rollout, ReplayBatch | None, PRNGKey]
        ) -> tuple[Carry, dict[str, Array]]:
            state, trainable = carry
            batch, replay_batch, batch_key = inputs
            loss = partial(self._loss, network_of=network_of, key=batch_key)
            gradients, sums = self._gradient_and_sums(loss, trainable, batch)
            # A gradient of its own: replayed observations need another `network_of`.
            if replay_term is not None:
                loss = partial(
                    self._replay_loss, replay_term=replay_term, key=batch_key
                )
                extra, replay_sums = self._gradient_and_sums(
                    loss, trainable, replay_batch
                )
                gradients = jax.tree.map(jnp.add, gradients, extra)
                sums |= replay_sums
            # Once per update: in the loss it would count once for each part of a batch.
            penalty, extra = jax.value_and_grad(penalty_of)(trainable)
            gradients = jax.tree.map(jnp.add, gradients, extra)
            # Only new steps count here: replayed ones add to the gradients.
            steps = jnp.maximum(sums.pop("steps"), 1)
            metrics = {name: value / steps for name, value in sums.items()}
            metrics["penalty"] = penalty
            # Before the clipping, after which it would never exceed the bound.
            metrics["gradient_norm"] = optax.tree.norm(gradients)
            updates, state = optimiser.update(gradients, state, trainable)
            return (state, optax.apply_updates(trainable, updates)), metrics

        def update_pass(
            carry: Carry, pass_keys: Key[Array, " batches"]
        ) -> tuple[Carry, dict[str, Array]]:
            return jax.lax.scan(update_batch, carry, (batches, replay, pass_keys))

        (state, trainable), metrics = jax.lax.scan(
            update_pass, (state, trainable), keys
        )
        return state, trainable, jax.tree.map(jnp.mean, metrics), unrolls

    def samples(self, network: Network, rollout: Rollout) -> Rollout:
        """Turn a rollout into unrolls, with the environments in front."""
        return by_env(rollout)

    @property
    def batches_per_rollout(self) -> int:
        """Number of batches that the unrolls of all environments are cut into."""
        return self.num_envs // self.batch_size

    def batches(self, samples: Rollout, key: PRNGKey) -> Rollout:
        """Cut unrolls into batches, `[batch, env, time, ...]`, in their order."""
        return _split(samples, self.batches_per_rollout)

    def gradient(
        self,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        batch: Rollout,
        key: PRNGKey,
    ) -> PyTree[Array]:
        """Return the gradient of the loss on one batch, without any penalty."""
        loss = partial(self._loss, network_of=network_of, key=key)
        return self._gradient_and_sums(loss, trainable, batch)[0]

    def _gradient_and_sums(
        self, loss: Loss, trainable: PyTree[Array], unrolls: PyTree[Array]
    ) -> tuple[PyTree[Array], Sums]:
        """Return the gradient on all unrolls, taking a few at a time if that pays."""
        gradient = jax.grad(loss, has_aux=True)
        if self.normalise_advantages:
            # The loss of one unroll then depends on all others of the batch.
            return gradient(trainable, unrolls)
        number = len(jax.tree.leaves(unrolls)[0]) // _unrolls_at_once(unrolls)
        parts = _split(unrolls, number)

        def add(
            total: tuple[PyTree[Array], Sums], part: PyTree[Array]
        ) -> tuple[tuple[PyTree[Array], Sums], None]:
            return jax.tree.map(jnp.add, total, gradient(trainable, part)), None

        first = jax.tree.map(itemgetter(0), parts)
        # Only traced, not computed: the scan begins with zeros of these shapes.
        shapes = jax.eval_shape(gradient, trainable, first)
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return jax.lax.scan(add, zeros, parts)[0]

    def _replay_loss(
        self,
        trainable: PyTree[Array],
        batch: ReplayBatch,
        replay_term: ReplayTerm,
        key: PRNGKey,
    ) -> tuple[Scalar, Sums]:
        """Return the loss of replayed unrolls, summed over their valid steps."""
        valid, unrolls = batch.valid, batch.unrolls
        unrolls = unrolls._replace(steps=unrolls.steps._replace(valid=valid))
        network = jax.vmap(jax.vmap(replay_term.network_of(trainable, key)))
        outputs = network(_with_last(unrolls))
        # The method's loss has no use for the outputs on the last observations.
        on_steps = jax.tree.map(lambda x: x[:, :-1].reshape(-1, *x.shape[2:]), outputs)
        losses = replay_term.loss_of(trainable, batch.all_steps, on_steps, key)
        loss = jnp.sum(losses * valid.ravel())
        sums = {"replay_loss": loss}
        if replay_term.off_policy:
            loss += self._loss_terms(outputs, unrolls)[0]
        return loss, sums

    def _loss(
        self,
        trainable: PyTree[Array],
        batch: Rollout,
        network_of: NetworkOf,
        key: PRNGKey,
    ) -> tuple[Scalar, Sums]:
        """Return the loss of a network on a batch, and sums over all steps."""
        network = jax.vmap(jax.vmap(network_of(trainable, key)))
        return self._loss_terms(network(_with_last(batch)), batch)

    def _loss_terms(
        self, outputs: PolicyAndValue, batch: Rollout
    ) -> tuple[Scalar, Sums]:
        """Add up policy gradient, value error and entropy bonus of all steps.

        `outputs` are `[env, time + 1]`: those on each step and on the last observation.
        """
        steps = batch.steps
        policies, values = outputs
        # There is no action on the last observation, only a value to bootstrap from.
        policy = jax.tree.map(lambda leaf: leaf[:, :-1], policies)
        v_tm1, bootstrap_value = values[:, :-1], values[:, -1]
        log_prob = policy.log_prob(steps.action)
        # Importance weights are constants: only `log_prob` itself has a gradient.
        rho_tm1 = jnp.exp(jax.lax.stop_gradient(log_prob) - steps.log_prob)
        discount_t = self.discount * (1 - steps.done)
        clipped_vtrace = partial(
            vtrace,
            rho_clip=self.rho_clip,
            c_clip=self.c_clip,
            policy_rho_clip=self.policy_rho_clip,
        )
        # V-trace corrects the values of the network in training, not the actor's. As
        # published, targets have no gradient.
        constants = jax.lax.stop_gradient((v_tm1, bootstrap_value))
        traced = jax.vmap(clipped_vtrace)(steps.reward, discount_t, *constants, rho_tm1)
        counts = jnp.ones_like(v_tm1) if steps.valid is None else steps.valid

        def total(values: Array) -> Scalar:
            return jnp.sum(values * counts)

        advantage_tm1 = self._advantage(traced.advantage_tm1, rho_tm1, counts)
        # The half below and the default `value_coefficient` make 0.25, as published.
        terms = {
            "policy_loss": -total(log_prob * advantage_tm1),
            "value_loss": 0.5 * total((traced.target_tm1 - v_tm1) ** 2),
            "entropy": total(policy.entropy()),
        }
        loss = (
            terms["policy_loss"]
            + self.value_coefficient * terms["value_loss"]
            - self.entropy_coefficient * terms["entropy"]
        )
        weight = total(jnp.minimum(rho_tm1, self.rho_clip))
        return loss, {"loss": loss, "weight": weight, "steps": jnp.sum(counts), **terms}

    def _advantage(self, advantage: Array, rho: Array, counts: Array) -> Array:
        """Return the factors of the steps' policy gradients."""
        if self.normalise_advantages:
            advantage = self._normalised(advantage, rho, counts)
        if self.clip_ratio is None:
            return advantage
        # `rho` has no gradient here, so PPO's minimum of two ratios would not clip.
        moved = (rho - 1) * jnp.sign(advantage)
        return jnp.where(moved > self.clip_ratio, 0.0, advantage)

    def _normalised(self, advantage: Array, rho: Array, counts: Array) -> Array:
        """Bring the advantages of a batch to mean 0 and deviation 1.

        Advantages include importance weights, and so must the mean that is subtracted:
        only then is it a baseline, which does not change the expected gradient.
        """
        weight = jnp.minimum(rho, self.policy_rho_clip)
        mean = jnp.sum(advantage * counts) / (jnp.sum(weight * counts) + ADVANTAGE_EPS)
        centred = advantage - mean * weight
        square = jnp.sum(centred**2 * counts) / jnp.maximum(jnp.sum(counts), 1)
        return centred / (jnp.sqrt(square) + ADVANTAGE_EPS)


def _split(unrolls: PyTree[Array], number: int) -> PyTree[Array]:
    """Split unrolls into a number of batches, in their order."""
    return jax.tree.map(lambda x: x.reshape(number, -1, *x.shape[1:]), unrolls)


def _with_last(unrolls: Rollout) -> PyTree[Array]:
    """Return all observations with the last ones, `[env, time + 1, ...]`."""

    def join(observations: Array, last: Array) -> Array:
        return jnp.concatenate([observations, last[:, None]], 1)

    return jax.tree.map(join, unrolls.steps.observation, unrolls.last_observation)


def _unrolls_at_once(batch: PyTree[Array]) -> int:
    """Return the number of unrolls from which a gradient is computed at a time.

    The loss is a sum over unrolls, so it makes no difference to the result.
    """
    unrolls, steps = jax.tree.leaves(batch)[0].shape[:2]
    if not should_batch(batch, axes=2):
        return unrolls
    numbers = (n for n in range(1, unrolls + 1) if n * steps <= IMAGES_AT_ONCE)
    # Parts of one size, so that one scan takes them all.
    return max((n for n in numbers if unrolls % n == 0), default=1)
