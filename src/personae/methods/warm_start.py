"""What an earlier life has left: a backbone, and the scores of all its masks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from personae.backbones.weights import named_weights, split_weights, weight_name
from personae.bits import unpack_bits
from personae.errors import UsageError, require
from personae.policy.architecture import Architecture
from personae.policy.jax.translate import architecture_of
from personae.serialise import first_difference, to_plain


@dataclass(frozen=True)
class WarmStart:
    """Where a new life goes on from."""

    backbone: Mapping[str, np.ndarray]
    """As `describe_backbone` has it."""
    scores: Mapping[str, np.ndarray]
    """Of each task, `[task, ...]`, by layer."""
    form: Architecture
    """Of the network, which has to be the same."""

    @property
    def number(self) -> int:
        """How many tasks it has learned."""
        return len(next(iter(self.scores.values())))

    def backbone_of(self, network: Any) -> Any:
        """Return a network with the earlier backbone's weights."""
        difference = first_difference(
            to_plain(self.form), to_plain(architecture_of(network))
        )
        if difference is not None:
            where, then, now = difference
            raise UsageError(
                f"the earlier life's network is another one: its {where} is {then}, "
                f"this curriculum's is {now}"
            )
        weights, rest = split_weights(network)

        def weight(path: Any, layer: Array) -> Array:
            name = weight_name(path)
            count = -(-layer.size // 8)
            packed = self._array(self.backbone, f"signs/{name}", (count,))
            signs = unpack_bits(packed, layer.shape)
            constant = self._array(self.backbone, f"constants/{name}", ())
            return jnp.asarray(np.where(signs, constant, -constant), layer.dtype)

        def other(path: Any, array: Any) -> Any:
            if not eqx.is_array(array):
                return array
            name = f"rest/{weight_name(path)}"
            return jnp.asarray(self._array(self.backbone, name, array.shape))

        at = jax.tree_util.tree_map_with_path
        return eqx.combine(at(weight, weights), at(other, rest))

    def scores_like(self, weights: PyTree[Array]) -> PyTree[Array]:
        """Return the scores as a tree like a network's weights."""
        known, wanted = set(self.scores), set(named_weights(weights))
        require(known == wanted, f"it has masks of {sorted(known)}, not {wanted}")

        def stacked(path: Any, layer: Array) -> Array:
            shape = (self.number, *layer.shape)
            return jnp.asarray(self._array(self.scores, weight_name(path), shape))

        return jax.tree_util.tree_map_with_path(stacked, weights)

    def _array(
        self, arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]
    ) -> np.ndarray:
        found = arrays.get(name)
        if found is None or found.shape != shape:
            there = "nothing" if found is None else list(found.shape)
            raise UsageError(
                f"the earlier life's network is another one: of {name} it has {there}, "
                f"this curriculum's network {list(shape)}"
            )
        return found
