"""PackNet: train, prune, retrain, freeze; each task owns a part of the weights.

Every weight of the body belongs to the task that kept it, or is free. A task is trained
with all free weights beside the frozen ones of earlier tasks; then the smallest free
weights are given up and the rest, now its own, are trained on without them.
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
    """How the weights are shared out."""

    keep: float | None = None
    """Share of the free weights of each layer that a task keeps; by default what gives
    all tasks of the curriculum equally many."""
    retrain: float = 0.2
    """Share of a task's steps that follows the pruning, rounded to evaluations."""

    def __post_init__(self) -> None:
        keeps = self.keep is None or 0 < self.keep <= 1
        require(keeps, f"keep must lie in (0, 1], not {self.keep}")
        require(0 < self.retrain < 1, f"retrain must lie in (0, 1): {self.retrain}")


class PackNetState(eqx.Module):
    """Weights, whose they are, and where the agent is in its life."""

    network: MultiHead
    owner: PyTree[Int[Array, "..."]]
    """Place in the order of learning of each body weight's owner; free ones have one
    that no task reaches."""
    order_of_task: Int[Array, " tasks"]
    """Place of each task in the order of learning, or UNLEARNED."""
    task: Int[Array, ""]
    order: Int[Array, ""]
    """Place of the current task."""
    pruned: Bool[Array, ""]
    """Whether the current task owns its weights already."""


@dataclass(frozen=True)
class PackNet(Method):
    """PackNet (Mallya and Lazebnik, 2018) with heads for each task.

    Note: free weights are drawn anew for each task; the original starts them at zero.
    As in the original, biases are trained on the first task only. A task that comes
    again trains its heads alone, as others may build on its weights.
    """

    options: PackNetOptions = PackNetOptions()

    @property
    def traits(self) -> Traits:
        """Retraining is the second phase of every task."""
        retrain = self.options.retrain
        return Traits(use_bias=True, phases=(1 - retrain, retrain))

    def init(self, network: eqx.Module, num_tasks: int, key: PRNGKey) -> PackNetState:
        """Return a network without owners."""
        render_frame = orthogonal_with_heads(network, num_tasks, key)
        weights, _ = split_weights(render_frame.body)
        zero = jnp.asarray(0, jnp.int32)
        return PackNetState(
            network=render_frame,
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
        render_frame = orthogonal_with_heads(state.network.select(task), 1, key)
        free = jax.tree.map(lambda o: o == state.order_of_task.size, state.owner)
        body = _choose(free, render_frame.body, state.network.body)
        known = state.order_of_task[task] != UNLEARNED
        next_place = jnp.max(state.order_of_task) + 1
        return PackNetState(
            network=MultiHead(body, state.network.heads),
            owner=state.owner,
            order_of_task=state.order_of_task,
            task=task.astype(jnp.int32),
            order=jnp.where(known, state.order_of_task[task], next_place),
            pruned=known,
        )

    def trainable(self, state: PackNetState) -> MultiHead:
        """Return the whole network; what is frozen has no gradient."""
        return state.network

    def _merged(self, state: PackNetState, trainable: MultiHead) -> MultiHead:
        """Return what was trained where it may be, and what was frozen elsewhere."""
        is_known = state.order_of_task[state.task] != UNLEARNED
        own = jnp.where(state.pruned, state.order, state.order_of_task.size)
        trained = jax.tree.map(lambda o: (o == own) & ~is_known, state.owner)
        trains_biases = (state.order == 0) & ~is_known
        body = _choose(trained, trainable.body, state.network.body, trains_biases)
        return MultiHead(body, trainable.heads)

    def _seen_up_to(
        self, state: PackNetState, trainable: MultiHead, limit: Array
    ) -> MultiHead:
        """Return the network without the weights of owners beyond a limit."""
        network = self._merged(state, trainable)
        weights, rest = split_weights(network.body)
        kept = jax.tree.map(lambda w, o: w * (o <= limit), weights, state.owner)
        return MultiHead(eqx.combine(kept, rest), network.heads)

    def _limit(self, state: PackNetState) -> Int[Array, ""]:
        """Return the last owner whose weights the current task uses."""
        return jnp.where(state.pruned, state.order, state.order_of_task.size)

    def network(
        self, state: PackNetState, trainable: MultiHead, key: PRNGKey
    ) -> Network:
        """Return the current task's network: before pruning with all weights."""
        seen = self._seen_up_to(state, trainable, self._limit(state))
        return cast(Network, seen.select(state.task))

    def next_phase(
        self, state: PackNetState, trainable: MultiHead, key: PRNGKey
    ) -> PackNetState:
        """Prune: the largest free weights become the task's own."""
        merged = self._merged(state, trainable)
        num_tasks = state.order_of_task.size
        share = self.options.keep or 1 / (num_tasks - state.order)
        weights, _ = split_weights(merged.body)

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
        """Freeze; a task too short for a second phase is pruned now."""
        ended = self.next_phase(state, trainable, key)
        places = ended.order_of_task.at[ended.task].set(ended.order)
        return eqx.tree_at(lambda s: s.order_of_task, ended, places)

    def policy(
        self, state: PackNetState, trainable: MultiHead, task: Int[Array, ""]
    ) -> Network:
        """Return a task's network; one not learned yet uses what the current one does.

        As in training its weights are those up to its own, never later ones.
        """
        place = state.order_of_task[task]
        known = (place != UNLEARNED) & (task != state.task)
        limit = jnp.where(known, place, self._limit(state))
        return cast(Network, self._seen_up_to(state, trainable, limit).select(task))

    def export(self, state: PackNetState, trainable: MultiHead) -> Mapping[str, Array]:
        """Return the network as the current task sees it, with all heads."""
        return self._seen_up_to(state, trainable, self._limit(state)).named_arrays()


def is_largest(
    sizes: Float[Array, "..."],
    among: Bool[Array, "..."],
    share: Float[Array, ""] | float,
) -> Bool[Array, "..."]:
    """Tell which entries are the largest share of those among which to choose."""
    order = jnp.argsort(jnp.where(among, -sizes, jnp.inf), axis=None)
    rank = jnp.zeros(sizes.size, jnp.int32).at[order].set(jnp.arange(sizes.size))
    return among & (rank.reshape(sizes.shape) < jnp.round(share * jnp.sum(among)))


def _choose(
    weights_from: PyTree[Bool[Array, "..."]],
    new: eqx.Module,
    old: eqx.Module,
    rest_from: Bool[Array, ""] | bool = False,
) -> eqx.Module:
    """Take weights from one body or the other, entry by entry, and the rest whole."""
    new_weights, new_rest = split_weights(new)
    old_weights, old_rest = split_weights(old)
    weights = jax.tree.map(jnp.where, weights_from, new_weights, old_weights)
    rest = jax.tree.map(lambda n, o: jnp.where(rest_from, n, o), new_rest, old_rest)
    return cast(eqx.Module, eqx.combine(weights, rest))
