"""IMPALA: actor-critic learning from experience that is a little out of date.

Unrolls of `rollout_length` steps come from policies a few updates old; V-trace corrects
for it. Each batch of unrolls is used for one update. Defaults are the published ones on
ProcGen. Losses are sums over all steps of a batch, and learning rate, `optimiser_eps`
and `max_gradient_norm` are meant for such sums.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from personae.errors import require
from personae.learners.base import NetworkOf, PenaltyOf
from personae.learners.optim import OptimiserName, make_optimiser
from personae.learners.returns import vtrace
from personae.types import PRNGKey, Rollout, Scalar


@dataclass(frozen=True)
class IMPALA:
    """IMPALA and its hyper-parameters."""

    num_envs: int = 64
    """Environments that are acted in side by side."""
    rollout_length: int = 20
    """Steps of an unroll."""
    batch_size: int = 32
    """Unrolls in an update."""
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
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus."""
    value_coefficient: float = 0.5
    """Weight of half the squared error of the value."""
    bootstrap_truncated: bool = False
    """Whether the value of the last state follows where a time limit cuts an episode;
    the published runs treat that as the end."""

    def __post_init__(self) -> None:
        for name in ("num_envs", "rollout_length", "batch_size"):
            value = getattr(self, name)
            require(value >= 1, f"IMPALA: {name} must be at least 1, not {value}")
        require(
            self.num_envs % self.batch_size == 0,
            f"IMPALA: the unrolls of {self.num_envs} environments (num_envs) cannot be "
            f"cut into batches of {self.batch_size} (batch_size)",
        )

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
    ) -> tuple[Any, PyTree[Array], Mapping[str, Scalar], Rollout]:
        """Make an update from each batch of unrolls."""
        unrolls = _by_env(rollout)
        batches = self.batches(unrolls, key)
        keys = jax.random.split(key, self.num_envs // self.batch_size)
        optimiser = self._optimiser(progress)

        def update_batch(carry: Any, batch_and_key: tuple[Rollout, PRNGKey]) -> Any:
            state, trainable = carry
            batch, batch_key = batch_and_key
            gradients, sums = self._summed(trainable, network_of, batch, batch_key)
            penalty, slope = jax.value_and_grad(penalty_of)(trainable)
            gradients = jax.tree.map(jnp.add, gradients, slope)
            steps = jnp.maximum(sums.pop("steps"), 1)
            metrics = {name: value / steps for name, value in sums.items()}
            metrics["penalty"] = penalty
            metrics["gradient_norm"] = optax.tree.norm(gradients)
            updates, state = optimiser.update(gradients, state, trainable)
            return (state, optax.apply_updates(trainable, updates)), metrics

        (state, trainable), metrics = jax.lax.scan(
            update_batch, (state, trainable), (batches, keys)
        )
        return state, trainable, jax.tree.map(jnp.mean, metrics), unrolls

    def batches(self, samples: Rollout, key: PRNGKey) -> Rollout:
        """Cut unrolls into batches, `[batch, env, time, ...]`, in their order."""

        def cut(leaf: Array) -> Array:
            return leaf.reshape(-1, self.batch_size, *leaf.shape[1:])

        return jax.tree.map(cut, samples)

    def gradient(
        self,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        batch: Rollout,
        key: PRNGKey,
    ) -> PyTree[Array]:
        """Return the gradient of the loss on one batch, without any penalty."""
        return self._summed(trainable, network_of, batch, key)[0]

    def _summed(
        self,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        batch: Rollout,
        key: PRNGKey,
    ) -> Any:
        """Return gradient and sums of a batch, a few unrolls at a time if that pays."""
        size = _unrolls_at_once(batch)
        parts = jax.tree.map(lambda x: x.reshape(-1, size, *x.shape[1:]), batch)

        def of_part(part: Rollout) -> Any:
            loss = jax.grad(self._loss, has_aux=True)
            return loss(trainable, network_of, part, key)

        def add(total: Any, part: Rollout) -> Any:
            return jax.tree.map(jnp.add, total, of_part(part)), None

        shapes = jax.eval_shape(of_part, jax.tree.map(itemgetter(0), parts))
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return jax.lax.scan(add, nothing, parts)[0]

    def _loss(
        self,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        batch: Rollout,
        key: PRNGKey,
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """Policy gradient, value error and entropy bonus, summed over all steps."""
        steps = batch.steps
        network = jax.vmap(jax.vmap(network_of(trainable, key)))
        policy_and_after, values = network(_with_last(batch))
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

        terms = {
            "policy_loss": -total(log_prob * traced.advantage_tm1),
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


def _by_env(rollout: Rollout) -> Rollout:
    """Return unrolls with the environments in front."""
    swapped = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), rollout.steps)
    return rollout._replace(steps=swapped)


def _with_last(unrolls: Rollout) -> Any:
    """Return the observations of all steps and what came after, `[env, time, ...]`."""

    def join(seen: Array, last: Array) -> Array:
        return jnp.concatenate([seen, last[:, None]], 1)

    return jax.tree.map(join, unrolls.steps.observation, unrolls.last_observation)


def _unrolls_at_once(batch: Rollout) -> int:
    """Return how many unrolls a gradient is computed from at a time.

    The loss is a sum over unrolls, so it makes no difference to the result. On a CPU
    a few unrolls of images and what is computed from them stay in its cache.
    """
    shown = jax.tree.leaves(batch.steps.observation)[0]
    unrolls, images = len(shown), shown.ndim >= 5
    few = images and jax.default_backend() == "cpu"
    return math.gcd(unrolls, 4) if few else unrolls
