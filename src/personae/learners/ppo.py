"""Proximal policy optimisation as the published experiments ran it.

One rollout is `num_envs * rollout_length` steps; each epoch shuffles it into
`num_minibatches` batches and makes one update for each. Defaults are the CT-graph's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from personae.errors import require
from personae.learners.contract import (
    LearnerState,
    NetworkOf,
    PenaltyOf,
    ReplayTerm,
)
from personae.learners.optimisers import OptimiserName, make_optimiser
from personae.learners.options import check_at_least_one
from personae.learners.returns import advantages, discounted_returns
from personae.types import (
    Action,
    Network,
    Observation,
    PRNGKey,
    ReplayedSteps,
    Rollout,
    Scalar,
)

Carry: TypeAlias = tuple[LearnerState, PyTree[Array]]
"""The learner's state and the trainable, from one update to the next."""
ReplaySteps: TypeAlias = tuple[ReplayedSteps, Bool[Array, "..."]]
"""Replayed steps, and which of them are valid."""


class Samples(NamedTuple):
    """Independent steps to learn from, with any leading axes."""

    observation: Observation
    action: Action
    log_prob: Float[Array, "..."]
    advantage: Float[Array, "..."]
    target: Float[Array, "..."]
    valid: Bool[Array, "..."] | None
    """The steps that count; all of them if None."""


def _mean(values: Float[Array, "..."], valid: Bool[Array, "..."] | None) -> Scalar:
    """Average over the steps that count."""
    if valid is None:
        return values.mean()
    # A batch may have no valid step at all: 0 then, not NaN.
    return jnp.sum(values, where=valid) / jnp.maximum(valid.sum(), 1)


# All defaults are as published but `bootstrap_truncated`: a time limit that counts as
# the end biases values, so presets have to ask for it.
@dataclass(frozen=True)
class PPO:
    """PPO and its hyper-parameters."""

    num_envs: int = 4
    """Environments stepped in lock-step ("workers" in the paper)."""
    rollout_length: int = 128
    """Steps in each environment per iteration."""
    epochs: int = 1
    """Passes over each rollout. The paper says 8; the published code makes one, because
    its batch cursor is never reset (see docs/ppo.md)."""
    num_minibatches: int = 64
    """Number (not size) of mini-batches per epoch; 512 steps give batches of 8."""
    optimiser: OptimiserName = "rmsprop"
    """rmsprop or adam, with torch's conventions. Its state starts afresh with each task
    if the task has weights of its own, such as a mask; otherwise it lasts for the whole
    curriculum."""
    learning_rate: float = 1.5e-4
    """Step size of all parameters; it does not decay."""
    optimiser_eps: float = 1e-8
    """Term in the optimiser's denominator, outside the root."""
    max_gradient_norm: float = 5.0
    """Global norm to which gradients are clipped."""
    discount: float = 0.99
    """Discount factor gamma."""
    gae_lambda: float = 0.99
    """Lambda of the advantage estimate."""
    value_lambda: float = 1.0
    """Lambda of the value target; 1 is the plain discounted return, as published."""
    clip_ratio: float = 0.1
    """Clip range of the probability ratio."""
    entropy_coefficient: float = 0.1
    """Weight of the entropy bonus."""
    value_coefficient: float = 0.5
    """Weight of the squared error of the value."""
    advantage_eps: float = 1e-6
    """Added to the standard deviation that divides the advantages."""
    bootstrap_truncated: bool = True
    """Whether the value of the last state is added where a time limit cuts an episode;
    the published runs treat that as the end."""

    def __post_init__(self) -> None:
        check_at_least_one(
            self, "num_envs", "rollout_length", "epochs", "num_minibatches"
        )
        steps = self.num_envs * self.rollout_length
        require(
            steps % self.num_minibatches == 0,
            f"PPO: num_envs * rollout_length = {steps} steps cannot be cut into "
            f"{self.num_minibatches} equal mini-batches (num_minibatches)",
        )

    @property
    def off_policy(self) -> bool:
        """False: the clipped ratio is meant for the policy that has just acted."""
        return False

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return make_optimiser(
            self.optimiser,
            self.learning_rate,
            self.optimiser_eps,
            self.max_gradient_norm,
        )

    def init(self, trainable: PyTree[Array]) -> LearnerState:
        """Return a fresh optimiser state."""
        return self._optimiser.init(trainable)

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
    ) -> tuple[LearnerState, PyTree[Array], Mapping[str, Scalar], Samples]:
        """Make `epochs * num_minibatches` updates from one rollout."""
        # `progress` has no use here: the published step size does not decay.
        target_key, loop_key = jax.random.split(key)
        network = network_of(trainable, target_key)
        samples = self.samples(network, rollout)
        optimiser = self._optimiser
        replay = self._replay_minibatches(replay_term)

        def update_minibatch(
            carry: Carry, batch: tuple[Samples, ReplaySteps | None, PRNGKey]
        ) -> tuple[Carry, dict[str, Scalar]]:
            state, trainable = carry
            minibatch, replay_batch, batch_key = batch
            gradients, metrics = jax.grad(self._loss, has_aux=True)(
                trainable, network_of, penalty_of, minibatch, batch_key
            )
            # A gradient of its own: replayed observations need another `network_of`.
            if replay_term is not None and replay_batch is not None:
                replay_gradients, replay_loss = jax.grad(_replay_loss, has_aux=True)(
                    trainable, *replay_batch, replay_term, batch_key
                )
                gradients = jax.tree.map(jnp.add, gradients, replay_gradients)
                metrics["replay_loss"] = replay_loss
            # Before the clipping, after which it would never exceed the bound.
            metrics["gradient_norm"] = optax.tree.norm(gradients)
            updates, state = optimiser.update(gradients, state, trainable)
            return (state, optax.apply_updates(trainable, updates)), metrics

        def update_epoch(
            carry: Carry, epoch_key: PRNGKey
        ) -> tuple[Carry, dict[str, Array]]:
            shuffle_key, batch_key = jax.random.split(epoch_key)
            batches = self.batches(samples, shuffle_key)
            keys = jax.random.split(batch_key, self.num_minibatches)
            return jax.lax.scan(update_minibatch, carry, (batches, replay, keys))

        (state, trainable), metrics = jax.lax.scan(
            update_epoch, (state, trainable), jax.random.split(loop_key, self.epochs)
        )
        return state, trainable, jax.tree.map(jnp.mean, metrics), samples

    def gradient(
        self,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        batch: Samples,
        key: PRNGKey,
    ) -> PyTree[Array]:
        """Return the gradient of the loss on one batch, without any penalty."""
        gradient, _ = jax.grad(self._loss, has_aux=True)(
            trainable, network_of, _no_penalty, batch, key
        )
        return gradient

    def _replay_minibatches(self, replay_term: ReplayTerm | None) -> ReplaySteps | None:
        """Cut replayed steps into as many mini-batches as a rollout has."""
        if replay_term is None:
            return None
        # Steps divide evenly, or the run's configuration would have been refused.
        valid = replay_term.batch.valid.ravel()
        number = self.num_minibatches
        steps = replay_term.batch.all_steps, valid
        return jax.tree.map(lambda x: x.reshape(number, -1, *x.shape[1:]), steps)

    def samples(self, network: Network, rollout: Rollout) -> Samples:
        """Turn a rollout into independent samples, with normalised advantages."""
        steps = rollout.steps
        _, bootstrap_value = jax.vmap(network)(rollout.last_observation)
        # Zero at an episode's end, so that no value is carried back over it.
        discount_t = self.discount * (1 - steps.done)
        env_axes = (1, 1, 1, 0)
        estimate = jax.vmap(advantages, (*env_axes, None), 1)
        gae = estimate(
            steps.reward, discount_t, steps.value, bootstrap_value, self.gae_lambda
        )
        # With lambda 1 both are equal but for rounding; the plain sum is as published.
        if self.value_lambda == 1:
            target = jax.vmap(discounted_returns, (1, 1, 0), 1)(
                steps.reward, discount_t, bootstrap_value
            )
        else:
            target = steps.value + estimate(
                steps.reward,
                discount_t,
                steps.value,
                bootstrap_value,
                self.value_lambda,
            )
        # Torch's default deviation divides by n - 1, NumPy's by n.
        # As published, advantages are normalised over the rollout, not per mini-batch.
        deviation = gae.std(ddof=1, where=steps.valid)
        normalised = (gae - _mean(gae, steps.valid)) / (deviation + self.advantage_eps)
        return Samples(
            steps.observation,
            steps.action,
            steps.log_prob,
            normalised,
            target,
            steps.valid,
        )

    @property
    def batches_per_rollout(self) -> int:
        """Number of mini-batches in an epoch."""
        return self.num_minibatches

    def batches(self, samples: Samples, key: PRNGKey) -> Samples:
        """Shuffle one rollout's samples into batches, `[batch, sample, ...]`."""
        order = jax.random.permutation(key, self.num_envs * self.rollout_length)

        def cut(leaf: Array) -> Array:
            flat = leaf.reshape(order.size, *leaf.shape[2:])
            return flat[order].reshape(self.num_minibatches, -1, *leaf.shape[2:])

        return jax.tree.map(cut, samples)

    def _loss(
        self,
        trainable: PyTree[Array],
        network_of: NetworkOf,
        penalty_of: PenaltyOf,
        batch: Samples,
        key: PRNGKey,
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """Add up clipped surrogate, entropy bonus, value error and penalty."""
        policy, value = jax.vmap(network_of(trainable, key))(batch.observation)
        # Each update draws its random masks anew: a ratio need not start at 1.
        ratio = jnp.exp(policy.log_prob(batch.action) - batch.log_prob)
        clipped = jnp.clip(ratio, 1 - self.clip_ratio, 1 + self.clip_ratio)
        surrogate = jnp.minimum(ratio * batch.advantage, clipped * batch.advantage)
        # As published, values are not clipped.
        terms = {
            "policy_loss": -_mean(surrogate, batch.valid),
            "value_loss": _mean((batch.target - value) ** 2, batch.valid),
            "entropy": _mean(policy.entropy(), batch.valid),
            "penalty": penalty_of(trainable),
        }
        loss = (
            terms["policy_loss"]
            + self.value_coefficient * terms["value_loss"]
            - self.entropy_coefficient * terms["entropy"]
            + terms["penalty"]
        )
        return loss, {"loss": loss, **terms}


def _no_penalty(trainable: PyTree[Array]) -> Scalar:
    return jnp.zeros(())


def _replay_loss(
    trainable: PyTree[Array],
    steps: ReplayedSteps,
    valid: Bool[Array, " steps"],
    replay_term: ReplayTerm,
    key: PRNGKey,
) -> tuple[Scalar, Scalar]:
    """Return the mean loss of the valid replayed steps, as value and as metric."""
    outputs = jax.vmap(replay_term.network_of(trainable, key))(steps.observation)
    losses = replay_term.loss_of(trainable, steps, outputs, key)
    loss = _mean(losses, valid)
    return loss, loss
