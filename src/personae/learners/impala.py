"""IMPALA: actor-critic learning from experience that is a little out of date.

Unrolls of `rollout_length` steps come from policies a few updates old; V-trace corrects
for it. Each batch of unrolls is used for one update, or for one in each of several
passes. Defaults are the published ones on ProcGen. Losses are sums over all steps of a
batch, and learning rate, `optimiser_eps` and `max_gradient_norm` are meant for such
sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from personae.backbones.batching import IMAGES_AT_ONCE, should_batch
from personae.errors import require
from personae.learners.contract import (
    NetworkOf,
    PenaltyOf,
    ReplayBatch,
    ReplayTerm,
    by_env,
)
from personae.learners.optimisers import OptimiserName, make_optimiser
from personae.learners.returns import vtrace
from personae.serialise import LEFT_OUT
from personae.types import Network, PolicyAndValue, PRNGKey, Rollout, Scalar

ADVANTAGE_EPS = 1e-8
"""Added to the deviation of advantages."""


@dataclass(frozen=True)
class IMPALA:
    """IMPALA and its hyper-parameters."""

    num_envs: int = 64
    """Environments that are acted in side by side."""
    rollout_length: int = 20
    """Steps of an unroll."""
    batch_size: int = 32
    """Unrolls in an update."""
    passes: int = field(default=1, metadata=LEFT_OUT)
    """How often a rollout is learned from, batch after batch; V-trace corrects for what
    the passes before have changed."""
    optimiser: OptimiserName = "rmsprop"
    """rmsprop or adam, in torch's form. Where a task brings weights of its own, such as
    a mask, it starts afresh; otherwise it goes on through the whole life."""
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
    """Share by which an action's probability may move the way its advantage points;
    beyond it has no gradient (PPO's clip). None: it may move without bound."""
    normalise_advantages: bool = field(default=False, metadata=LEFT_OUT)
    """Whether the advantages of a batch are brought to mean 0 and deviation 1."""
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus."""
    value_coefficient: float = 0.5
    """Weight of half the squared error of the value."""
    bootstrap_truncated: bool = False
    """Whether the value of the last state follows where a time limit cuts an episode;
    the published runs treat that as the end."""

    def __post_init__(self) -> None:
        for name in ("num_envs", "rollout_length", "batch_size", "passes"):
            value = getattr(self, name)
            require(value >= 1, f"IMPALA: {name} must be at least 1, not {value}")
        require(
            self.num_envs % self.batch_size == 0,
            f"IMPALA: the unrolls of {self.num_envs} environments (num_envs) cannot be "
            f"cut into batches of {self.batch_size} (batch_size)",
        )

    @property
    def off_policy(self) -> bool:
        """Importance weights correct for policies of long ago."""
        return True

    def _optimiser(self, progress: Scalar | float) -> optax.GradientTransformation:
        """Return the optimiser at a point of the visit; its state is always the same.

        Note: all updates of one iteration have the same step size.
        """
        left = 1 - progress if self.decay else 1.0
        return make_optimiser(
            self.optimiser,
            self.learning_rate * left,
            self.optimiser_eps,
            self.max_gradient_norm,
        )

    def init(self, trainable: PyTree[Array]) -> Any:
        """Return a fresh optimiser state."""
        return self._optimiser(0.0).init(trainable)

    def update(
        self,
        state: Any,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        penalty_of: PenaltyOf,
        rollout: Rollout,
        progress: Scalar,
        key: PRNGKey,
        replay_term: ReplayTerm | None = None,
    ) -> tuple[Any, PyTree[Array], Mapping[str, Scalar], Rollout]:
        """Make an update from each batch of unrolls, and as large a share of memories.

        Only new steps count for `steps`, so that memories add to gradients.
        """
        unrolls = by_env(rollout)
        batches = self.batches(unrolls, key)
        number = self.batches_per_rollout
        keys = jax.random.split(key, (self.passes, number))
        optimiser = self._optimiser(progress)
        memories = None if replay_term is None else _cut(replay_term.memories, number)

        def update_batch(
            carry: Any, given: tuple[Rollout, ReplayBatch | None, PRNGKey]
        ) -> Any:
            state, trainable = carry
            batch, remembered, batch_key = given
            loss = partial(self._loss, network_of=network_of, key=batch_key)
            gradients, sums = self._summed(loss, trainable, batch)
            if replay_term is not None:
                loss = partial(self._rehearsed, replay_term=replay_term, key=batch_key)
                slope, told = self._summed(loss, trainable, remembered)
                gradients = jax.tree.map(jnp.add, gradients, slope)
                sums |= told
            penalty, slope = jax.value_and_grad(penalty_of)(trainable)
            gradients = jax.tree.map(jnp.add, gradients, slope)
            steps = jnp.maximum(sums.pop("steps"), 1)
            metrics = {name: value / steps for name, value in sums.items()}
            metrics["penalty"] = penalty
            metrics["gradient_norm"] = optax.tree.norm(gradients)
            updates, state = optimiser.update(gradients, state, trainable)
            return (state, optax.apply_updates(trainable, updates)), metrics

        def learn_once(carry: Any, keys: Any) -> Any:
            return jax.lax.scan(update_batch, carry, (batches, memories, keys))

        (state, trainable), metrics = jax.lax.scan(learn_once, (state, trainable), keys)
        return state, trainable, jax.tree.map(jnp.mean, metrics), unrolls

    def samples(self, network: Network, rollout: Rollout) -> Rollout:
        """Turn a rollout into unrolls, with the environments in front."""
        return by_env(rollout)

    @property
    def batches_per_rollout(self) -> int:
        """How many batches the unrolls of all environments are cut into."""
        return self.num_envs // self.batch_size

    def batches(self, samples: Rollout, key: PRNGKey) -> Rollout:
        """Cut unrolls into batches, `[batch, env, time, ...]`, in their order."""
        return _cut(samples, self.batches_per_rollout)

    def gradient(
        self,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        batch: Rollout,
        key: PRNGKey,
    ) -> PyTree[Array]:
        """Return the gradient of the loss on one batch, without any penalty."""
        loss = partial(self._loss, network_of=network_of, key=key)
        return self._summed(loss, trainable, batch)[0]

    def _summed(
        self, loss: Any, trainable: PyTree[Array], unrolls: PyTree[Array]
    ) -> Any:
        """Return gradient and sums of unrolls, a few of them at a time if that pays."""
        gradient = jax.grad(loss, has_aux=True)
        if self.normalise_advantages:  # by those of the whole batch
            return gradient(trainable, unrolls)
        number = len(jax.tree.leaves(unrolls)[0]) // _unrolls_at_once(unrolls)
        cut = _cut(unrolls, number)

        def add(total: Any, part: PyTree[Array]) -> Any:
            return jax.tree.map(jnp.add, total, gradient(trainable, part)), None

        first = jax.tree.map(itemgetter(0), cut)
        shapes = jax.eval_shape(gradient, trainable, first)
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return jax.lax.scan(add, nothing, cut)[0]

    def _rehearsed(
        self,
        trainable: PyTree[Array],
        memories: ReplayBatch,
        replay_term: ReplayTerm,
        key: PRNGKey,
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """Return what memories cost, summed over all their steps."""
        counted, unrolls = memories.counted, memories.unrolls
        unrolls = unrolls._replace(steps=unrolls.steps._replace(valid=counted))
        network = jax.vmap(jax.vmap(replay_term.network_of(trainable, key)))
        thoughts = network(_with_last(unrolls))
        now = jax.tree.map(lambda x: x[:, :-1].reshape(-1, *x.shape[2:]), thoughts)
        each = replay_term.loss_of(trainable, memories.all_steps, now, key)
        loss = jnp.sum(each * counted.ravel())
        told = {"replay_loss": loss}
        if replay_term.off_policy:
            loss += self._price(thoughts, unrolls)[0]
        return loss, told

    def _loss(
        self,
        trainable: PyTree[Array],
        batch: Rollout,
        network_of: NetworkOf,
        key: PRNGKey,
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """Return what a network costs on a batch, and sums over all its steps."""
        network = jax.vmap(jax.vmap(network_of(trainable, key)))
        return self._price(network(_with_last(batch)), batch)

    def _price(
        self, thoughts: PolicyAndValue, batch: Rollout
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """Policy gradient, value error and entropy bonus, summed over all steps.

        Thoughts are those on each step, and on what came after the last.
        """
        steps = batch.steps
        policy_and_after, values = thoughts
        policy = jax.tree.map(lambda leaf: leaf[:, :-1], policy_and_after)
        v_tm1, bootstrap_value = values[:, :-1], values[:, -1]
        log_prob = policy.log_prob(steps.action)
        rho_tm1 = jnp.exp(jax.lax.stop_gradient(log_prob) - steps.log_prob)
        discount_t = self.discount * (1 - steps.done)
        clipped = partial(
            vtrace,
            rho_clip=self.rho_clip,
            c_clip=self.c_clip,
            policy_rho_clip=self.policy_rho_clip,
        )
        now = jax.lax.stop_gradient((v_tm1, bootstrap_value))
        traced = jax.vmap(clipped)(steps.reward, discount_t, *now, rho_tm1)
        counts = jnp.ones_like(v_tm1) if steps.valid is None else steps.valid

        def total(values: Array) -> Scalar:
            return jnp.sum(values * counts)

        advantage_tm1 = self._advantage(traced.advantage_tm1, rho_tm1, counts)
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
        """Return what the policy gradient of a batch is weighed with."""
        if self.normalise_advantages:
            advantage = self._normalised(advantage, rho, counts)
        if self.clip_ratio is None:
            return advantage
        moved = (rho - 1) * jnp.sign(advantage)
        return jnp.where(moved > self.clip_ratio, 0.0, advantage)

    def _normalised(self, advantage: Array, rho: Array, counts: Array) -> Array:
        """Bring the advantages of a batch to mean 0 and deviation 1.

        They carry importance weights, and so must what is taken from them: only then is
        it a baseline, which leaves the expected gradient as it is.
        """
        weight = jnp.minimum(rho, self.policy_rho_clip)
        mean = jnp.sum(advantage * counts) / (jnp.sum(weight * counts) + ADVANTAGE_EPS)
        centred = advantage - mean * weight
        square = jnp.sum(centred**2 * counts) / jnp.maximum(jnp.sum(counts), 1)
        return centred / (jnp.sqrt(square) + ADVANTAGE_EPS)


def _cut(unrolls: PyTree[Array], number: int) -> Any:
    """Cut unrolls into so many batches, in their order."""
    return jax.tree.map(lambda x: x.reshape(number, -1, *x.shape[1:]), unrolls)


def _with_last(unrolls: Rollout) -> Any:
    """Return the observations of all steps and what came after, `[env, time, ...]`."""

    def join(seen: Array, last: Array) -> Array:
        return jnp.concatenate([seen, last[:, None]], 1)

    return jax.tree.map(join, unrolls.steps.observation, unrolls.last_observation)


def _unrolls_at_once(batch: PyTree[Array]) -> int:
    """Return how many unrolls a gradient is computed from at a time.

    The loss is a sum over unrolls, so it makes no difference to the result.
    """
    unrolls, steps = jax.tree.leaves(batch)[0].shape[:2]
    if not should_batch(batch, axes=2):
        return unrolls
    fits = (n for n in range(1, unrolls + 1) if n * steps <= IMAGES_AT_ONCE)
    return max((n for n in fits if unrolls % n == 0), default=1)
