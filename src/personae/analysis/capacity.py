"""How much of the network tasks use."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Usage(NamedTuple):
    """Shares of all weights, by how many tasks use them; they add up to 1."""

    by_none: Float[np.ndarray, " agents"]
    by_one: Float[np.ndarray, " agents"]
    by_several: Float[np.ndarray, " agents"]
    """By two or more tasks, but not by all."""
    by_all: Float[np.ndarray, " agents"]


def _joined(
    masks: Iterable[Bool[np.ndarray, "agents tasks _"]],
) -> Bool[np.ndarray, "agents tasks all"]:
    return np.concatenate(list(masks), axis=-1)


def densities(
    masks: Iterable[Bool[np.ndarray, "agents tasks _"]],
) -> Float[np.ndarray, "agents tasks"]:
    """Return the share of all weights that each task uses, from its layers' masks."""
    return np.asarray(_joined(masks).mean(-1))


def usage(masks: Iterable[Bool[np.ndarray, "agents tasks _"]]) -> Usage:
    """Return the shares of weights used by no task, by one, by several and by all.

    A weight that the only task of a life uses is used by all.
    """
    joined = _joined(masks)
    users, tasks = joined.sum(1), joined.shape[1]
    by_none, by_all = (users == 0).mean(-1), (users == tasks).mean(-1)
    by_one = ((users == 1) & (users < tasks)).mean(-1)
    return Usage(by_none, by_one, 1 - by_none - by_one - by_all, by_all)
