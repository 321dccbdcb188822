"""A bank of learned scores: one slot per task, in the order of learning."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

UNLEARNED = -1


class Bank(eqx.Module):
    """Scores of the tasks learned so far, stacked per layer.

    Shapes must be known to a compiled program, so the bank has room for more tasks than
    it holds; `reserve` makes more room. Stored scores change only when their own task
    is visited again.
    """

    scores: PyTree[Array]
    """A tree like the backbone's weights with a leading slot axis."""
    slot_of_task: Int[Array, " tasks"]
    """The slot of each task of the curriculum, or -1."""
    num_inherited: int = eqx.field(static=True, default=0)
    """Number of slots, the first ones, that come from a warm start."""

    @property
    def capacity(self) -> int:
        """Number of slots, filled or not."""
        return int(jax.tree.leaves(self.scores)[0].shape[0])

    @property
    def num_learned(self) -> Int[Array, ""]:
        """Number of filled slots."""
        return self.num_inherited + jnp.sum(self.slot_of_task != UNLEARNED)

    @property
    def occupied(self) -> Bool[Array, " slots"]:
        """The slots that hold a learned task."""
        return jnp.arange(self.capacity) < self.num_learned

    def has_learned(self, task: Int[Array, ""]) -> Bool[Array, ""]:
        """Tell whether the task has been learned."""
        return self.slot_of_task[task] != UNLEARNED

    def lookup(self, slot: Int[Array, ""]) -> PyTree[Array]:
        """Return the scores in one slot."""
        # The slot of an unlearned task, -1, gives the last one, which callers discard.
        return jax.tree.map(lambda layer: layer[slot], self.scores)

    def store(self, task: Int[Array, ""], scores: PyTree[Array]) -> "Bank":
        """Put a task's scores into its own slot, or the next free one if it is new."""
        # Not a branch: in a compiled program the task is not known.
        slot = jnp.where(
            self.has_learned(task), self.slot_of_task[task], self.num_learned
        )
        return Bank(
            jax.tree.map(
                lambda layer, new: layer.at[slot].set(new), self.scores, scores
            ),
            self.slot_of_task.at[task].set(slot.astype(self.slot_of_task.dtype)),
            self.num_inherited,
        )


def empty_bank(weights: PyTree[Array], num_tasks: int) -> Bank:
    """Return a bank without slots for a network with these weights."""
    no_scores = jax.tree.map(lambda w: jnp.zeros((0, *w.shape), w.dtype), weights)
    return Bank(no_scores, jnp.full(num_tasks, UNLEARNED, jnp.int32))


def inherited_bank(scores: PyTree[Array], num_tasks: int) -> Bank:
    """Return a bank that starts with the scores of a warm start.

    Args:
        scores: A tree like the backbone's weights, with a leading axis of slots.
        num_tasks: Number of tasks of the curriculum; none of them has a slot yet.
    """
    num_inherited = int(jax.tree.leaves(scores)[0].shape[0])
    return Bank(scores, jnp.full(num_tasks, UNLEARNED, jnp.int32), num_inherited)


def reserve(bank: Bank, slots: int) -> Bank:
    """Return the same bank with room for at least `slots` tasks of the curriculum.

    Capacities are powers of two: each new capacity means new compiled programs, each
    empty slot means wasted multiplications, and doubling keeps both small.
    """
    slots += bank.num_inherited
    # Slots are only added: visits may come back to tasks whose scores are stored.
    capacity = 0 if slots == 0 else 1 << (slots - 1).bit_length()
    missing = max(0, capacity - bank.capacity)

    def pad(layer: Array) -> Array:
        # Zeros: an empty slot has coefficient 0, and 0 times NaN would be NaN.
        return jnp.pad(layer, [(0, missing)] + [(0, 0)] * (layer.ndim - 1))

    return Bank(jax.tree.map(pad, bank.scores), bank.slot_of_task, bank.num_inherited)
