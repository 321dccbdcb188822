"""The share of the network that tasks use."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Usage(NamedTuple):
    """Shares of all weights by the number of tasks that use them; they add up to 1."""

    by_none: Float[np.ndarray, " agents"]
    """Share of the weights that no task uses."""
    by_one: Float[np.ndarray, " agents"]
    """Share of the weights that exactly one task uses."""
    by_several: Float[np.ndarray, " agents"]
    """Share of the weights that two or more tasks use, but not all."""
    by_all: Float[np.ndarray, " agents"]
    """Share of the weights that all tasks use."""


def _joined(
    masks: Iterable[Bool[np.ndarray, "agents tasks _"]],
) -> Bool[np.ndarray, "agents tasks all"]:
    # Joined, so that each weight counts alike, whatever the size of its layer.
    return np.concatenate(list(masks), axis=-1)


def densities(
    masks: Iterable[Bool[np.ndarray, "agents tasks _"]],
) -> Float[np.ndarray, "agents tasks"]:
    """Return the share of all weights that each task uses, `[agent, task]`.

    Args:
        masks: The masks of each layer, `[agent, task, weight]`.
    """
    return np.asarray(_joined(masks).mean(-1))


def usage(masks: Iterable[Bool[np.ndarray, "agents tasks _"]]) -> Usage:
    """Return the shares of weights used by no task, by one, by several and by all.

    If there is only one task, the weights that it uses count as used by all.

    Args:
        masks: The masks of each layer, `[agent, task, weight]`.
    """
    joined = _joined(masks)
    users, tasks = joined.sum(1), joined.shape[1]
    by_none, by_all = (users == 0).mean(-1), (users == tasks).mean(-1)
    by_one = ((users == 1) & (users < tasks)).mean(-1)
    return Usage(by_none, by_one, 1 - by_none - by_one - by_all, by_all)
