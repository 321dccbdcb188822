"""Warm starts of mask methods: the backbone and the scores of an earlier agent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from personae.backbones.weights import (
    KeyPath,
    named_weights,
    split_weights,
    weight_name,
)
from personae.bits import unpack_bits
from personae.errors import UsageError, require
from personae.files import Arrays

Net = TypeVar("Net", bound=eqx.Module)


@dataclass(frozen=True)
class WarmStart:
    """The backbone and the masks that a run begins with."""

    backbone: Arrays
    """The backbone, as `describe_backbone` returns it."""
    scores: Arrays
    """The scores of all tasks by layer, `[task, ...]`."""
    check_network: Callable[[eqx.Module], None]
    """Raises an error unless a network has the architecture of the backbone."""

    @property
    def number(self) -> int:
        """Number of tasks with a mask."""
        return len(next(iter(self.scores.values())))

    def backbone_of(self, network: Net) -> Net:
        """Return a network with the weights of the backbone."""
        self.check_network(network)
        weights, rest = split_weights(network)

        def weight(path: KeyPath, layer: Array) -> Array:
            name = weight_name(path)
            num_bytes = -(-layer.size // 8)
            packed = self._array(self.backbone, f"signs/{name}", (num_bytes,))
            signs = unpack_bits(packed, layer.shape)
            constant = self._array(self.backbone, f"constants/{name}", ())
            return jnp.asarray(np.where(signs, constant, -constant), layer.dtype)

        def other(path: KeyPath, leaf: Any) -> Any:
            if not eqx.is_array(leaf):
                return leaf
            name = f"rest/{weight_name(path)}"
            return jnp.asarray(self._array(self.backbone, name, leaf.shape))

        map_leaves = jax.tree_util.tree_map_with_path
        return eqx.combine(map_leaves(weight, weights), map_leaves(other, rest))

    def scores_like(self, weights: PyTree[Array]) -> PyTree[Array]:
        """Return the scores as a tree of the shape of a network's weights."""
        names, needed = set(self.scores), set(named_weights(weights))
        require(
            names == needed,
            f"the warm start has masks of {sorted(names)}, not {sorted(needed)}",
        )

        def stacked(path: KeyPath, layer: Array) -> Array:
            shape = (self.number, *layer.shape)
            return jnp.asarray(self._array(self.scores, weight_name(path), shape))

        return jax.tree_util.tree_map_with_path(stacked, weights)

    def _array(self, arrays: Arrays, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array, or raise an error unless it has a shape."""
        # The arrays come from a file that may be a stranger's.
        array = arrays.get(name)
        if array is None or array.shape != shape:
            present = "nothing" if array is None else list(array.shape)
            raise UsageError(
                f"the network of the warm start is another one: of {name} it has "
                f"{present}, this curriculum's network {list(shape)}"
            )
        return array
