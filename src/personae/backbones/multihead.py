"""Networks with one body and heads for each task, or the same heads for all."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from personae.backbones.weights import HEADS, named_arrays, orthogonal
from personae.types import PRNGKey


class MultiHead(eqx.Module):
    """A network whose heads are stacked along a leading axis of tasks."""

    body: eqx.Module
    """The network without its heads, which are None."""
    heads: PyTree[Array]
    """The heads; each array has an axis of tasks in front."""

    @property
    def num_heads(self) -> int:
        """Number of actor heads, and of critic heads."""
        return int(jax.tree.leaves(self.heads)[0].shape[0])

    def select(self, task: Int[Array, ""]) -> eqx.Module:
        """Return the network of one task; a single head serves all tasks."""
        # A single head has index 0, whatever the task.
        head = jnp.minimum(task, self.num_heads - 1)
        heads = jax.tree.map(lambda stacked: stacked[head], self.heads)
        return eqx.tree_at(_heads_of, self.body, heads, is_leaf=lambda x: x is None)

    def named_arrays(self) -> dict[str, Array]:
        """Return the arrays by path, for example `body/trunk.0.bias`."""
        heads = dict(zip(HEADS, self.heads, strict=True))
        return {
            f"{part}/{name}": leaf
            for part, tree in (("body", self.body), ("heads", heads))
            for name, leaf in named_arrays(tree).items()
        }


def _heads_of(network: eqx.Module) -> tuple[PyTree, ...]:
    return tuple(getattr(network, name) for name in HEADS)


def orthogonal_with_heads(
    network: eqx.Module, num_heads: int, key: PRNGKey
) -> MultiHead:
    """Draw a network with several heads in the manner of the published baselines.

    Args:
        network: A network with one actor and one critic; only its form counts.
        num_heads: Number of actors, and of critics.
        key: The source of the weights.
    """

    def draw_heads(key: PRNGKey) -> tuple[PyTree, ...]:
        return _heads_of(orthogonal(network, key))

    # A key for the body alone: it is the same whatever the number of heads.
    body_key, heads_key = jax.random.split(key)
    body = eqx.tree_at(_heads_of, orthogonal(network, body_key), (None,) * len(HEADS))
    heads = jax.vmap(draw_heads)(jax.random.split(heads_key, num_heads))
    return MultiHead(body, heads)
