"""PackNet: train, prune, retrain, freeze; each task owns a part of the weights.

Every weight of the body is free or belongs to one task. A task is trained with all free
weights beside the frozen ones of previous tasks; then the largest free weights become
its own and are trained further, without the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from personae.backbones.multihead import MultiHead, orthogonal_with_heads
from personae.backbones.weights import split_weights
from personae.errors import require
from personae.methods.contract import Method, Traits
from personae.types import Network, PRNGKey

UNLEARNED = -1


@dataclass(frozen=True)
class PackNetOptions:
    """Options of PackNet: the share of weights per task and the time to retrain."""

    keep: float | None = None
    """Share of the free weights of each layer that a task keeps; by default the share
    that gives all tasks of the curriculum equally many."""
    retrain: float = 0.2
    """Share of a task's steps after the pruning, rounded to evaluations."""

    def __post_init__(self) -> None:
        fits = self.keep is None or 0 < self.keep <= 1
        require(fits, f"keep must lie in (0, 1], not {self.keep}")
        require(0 < self.retrain < 1, f"retrain must lie in (0, 1): {self.retrain}")


class PackNetState(eqx.Module):
    """The network, the owner of each weight, and the current task."""

    network: MultiHead
    owner: PyTree[Int[Array, "..."]]
    """Position in the order of learning of each body weight's owner. For free weights
    it is the number of tasks, which no owner has."""
    order_of_task: Int[Array, " tasks"]
    """Position of each task in the order of learning, or UNLEARNED."""
    task: Int[Array, ""]
    order: Int[Array, ""]
    """Position of the current task in the order of learning."""
    pruned: Bool[Array, ""]
    """Whether the current task owns its weights already."""


@dataclass(frozen=True)
class PackNet(Method):
    """PackNet (Mallya and Lazebnik, 2018) with heads for each task.

    Note: free weights are drawn anew for each task; the original starts them at zero.
    As in the original, biases are trained on the first task only. A second visit to a
    task trains its heads alone, as other tasks may use its weights.
    """

    options: PackNetOptions = PackNetOptions()

    @property
    def traits(self) -> Traits:
        """The properties of the method; a task's second phase retrains."""
        retrain = self.options.retrain
        return Traits(use_bias=True, phases=(1 - retrain, retrain))

    def init(self, network: eqx.Module, num_tasks: int, key: PRNGKey) -> PackNetState:
        """Return a network without owners."""
        fresh = orthogonal_with_heads(network, num_tasks, key)
        weights, _ = split_weights(fresh.body)
        zero = jnp.asarray(0, jnp.int32)
        return PackNetState(
            network=fresh,
            # Beyond every order: only a limit of `num_tasks` includes free weights.
            owner=jax.tree.map(lambda w: jnp.full(w.shape, num_tasks), weights),
            order_of_task=jnp.full(num_tasks, UNLEARNED, jnp.int32),
            task=zero,
            order=zero,
            pruned=jnp.asarray(False),
        )

    def begin_task(
        self, state: PackNetState, task: Int[Array, ""], key: PRNGKey
    ) -> PackNetState:
        """Draw the free weights anew."""
        # One head is enough, as the network keeps all the heads that it has.
        fresh = orthogonal_with_heads(state.network.select(task), 1, key)
        free = jax.tree.map(lambda o: o == state.order_of_task.size, state.owner)
        body = _combine(free, fresh.body, state.network.body)
        is_learned = state.order_of_task[task] != UNLEARNED
        next_order = jnp.max(state.order_of_task) + 1
        return PackNetState(
            network=MultiHead(body, state.network.heads),
            owner=state.owner,
            order_of_task=state.order_of_task,
            task=task.astype(jnp.int32),
            order=jnp.where(is_learned, state.order_of_task[task], next_order),
            pruned=is_learned,
        )

    def trainable(self, state: PackNetState) -> MultiHead:
        """Return the whole network; frozen weights get no gradient from `network`."""
        return state.network

    def _merged(self, state: PackNetState, trainable: MultiHead) -> MultiHead:
        """Return the network with the trained values of all weights that may change."""
        is_learned = state.order_of_task[state.task] != UNLEARNED
        own = jnp.where(state.pruned, state.order, state.order_of_task.size)
        # Weights not chosen here get no gradient, so all of them may be in `trainable`.
        trained = jax.tree.map(lambda o: (o == own) & ~is_learned, state.owner)
        # Frozen weights rely on the biases with which they were trained.
        trains_biases = (state.order == 0) & ~is_learned
        body = _combine(trained, trainable.body, state.network.body, trains_biases)
        return MultiHead(body, trainable.heads)

    def _owned_up_to(
        self, state: PackNetState, trainable: MultiHead, limit: Int[Array, ""]
    ) -> MultiHead:
        """Return the network without the weights of owners after a position."""
        network = self._merged(state, trainable)
        weights, rest = split_weights(network.body)
        # Zeros instead of smaller arrays: one program serves all tasks.
        used = jax.tree.map(lambda w, o: w * (o <= limit), weights, state.owner)
        return MultiHead(eqx.combine(used, rest), network.heads)

    def _limit(self, state: PackNetState) -> Int[Array, ""]:
        """Return the last owner whose weights the current task uses."""
        return jnp.where(state.pruned, state.order, state.order_of_task.size)

    def network(
        self, state: PackNetState, trainable: MultiHead, key: PRNGKey
    ) -> Network:
        """Return the current task's network: before pruning with all weights."""
        network = self._owned_up_to(state, trainable, self._limit(state))
        return cast(Network, network.select(state.task))

    def next_phase(
        self, state: PackNetState, trainable: MultiHead, key: PRNGKey
    ) -> PackNetState:
        """Prune: the largest free weights become the task's own."""
        merged = self._merged(state, trainable)
        num_tasks = state.order_of_task.size
        # By default the remaining tasks share the remaining weights equally.
        # Never 1 / 0: positions count from 0 and stay below the number of tasks.
        share = self.options.keep or 1 / (num_tasks - state.order)
        weights, _ = split_weights(merged.body)

        # `end_task` calls this again: a task claims weights only once.
        def claim(weight: Array, owner: Array) -> Array:
            large = is_largest(jnp.abs(weight), owner == num_tasks, share)
            return jnp.where(large & ~state.pruned, state.order, owner)

        return PackNetState(
            network=merged,
            owner=jax.tree.map(claim, weights, state.owner),
            order_of_task=state.order_of_task,
            task=state.task,
            order=state.order,
            pruned=jnp.asarray(True),
        )

    def end_task(
        self, state: PackNetState, trainable: MultiHead, key: PRNGKey
    ) -> PackNetState:
        """Freeze the task's weights, after pruning if there was no second phase."""
        ended = self.next_phase(state, trainable, key)
        orders = ended.order_of_task.at[ended.task].set(ended.order)
        return eqx.tree_at(lambda s: s.order_of_task, ended, orders)

    def policy(
        self, state: PackNetState, trainable: MultiHead, task: Int[Array, ""]
    ) -> Network:
        """Return a task's network; unlearned tasks use the weights of the current one.

        As in training, a task uses the weights up to its own, never later ones.
        """
        order = state.order_of_task[task]
        is_learned = (order != UNLEARNED) & (task != state.task)
        limit = jnp.where(is_learned, order, self._limit(state))
        return cast(Network, self._owned_up_to(state, trainable, limit).select(task))

    def export(self, state: PackNetState, trainable: MultiHead) -> Mapping[str, Array]:
        """Return the network that the current task uses, with all heads."""
        return self._owned_up_to(state, trainable, self._limit(state)).named_arrays()


def is_largest(
    sizes: Float[Array, "..."],
    among: Bool[Array, "..."],
    share: Float[Array, ""] | float,
) -> Bool[Array, "..."]:
    """Return a mask of the largest entries.

    Args:
        sizes: The entries to compare.
        among: The entries that count; the others are never selected.
        share: The share of those that count to select, rounded to a whole number.
    """
    # By rank, not by a threshold: equal entries must not give more than the share.
    order = jnp.argsort(jnp.where(among, -sizes, jnp.inf), axis=None)
    rank = jnp.zeros(sizes.size, jnp.int32).at[order].set(jnp.arange(sizes.size))
    return among & (rank.reshape(sizes.shape) < jnp.round(share * jnp.sum(among)))


def _combine(
    weights_from: PyTree[Bool[Array, "..."]],
    new: eqx.Module,
    old: eqx.Module,
    rest_from: Bool[Array, ""] | bool = False,
) -> eqx.Module:
    """Take each weight from one of two bodies, and all other arrays from one body."""
    new_weights, new_rest = split_weights(new)
    old_weights, old_rest = split_weights(old)
    weights = jax.tree.map(jnp.where, weights_from, new_weights, old_weights)
    rest = jax.tree.map(lambda n, o: jnp.where(rest_from, n, o), new_rest, old_rest)
    return cast(eqx.Module, eqx.combine(weights, rest))
