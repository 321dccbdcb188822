"""The similarity of the masks of different tasks (paper, appendix on similarity)."""

import numpy as np
from jaxtyping import Bool, Float

Pairwise = Float[np.ndarray, "agents tasks tasks"]


def l2_distances(scores: Float[np.ndarray, "agents tasks weights"]) -> Pairwise:
    """Return the L2 norm of the difference of each two tasks' scores, as published.

    The result is `[agent, task, task]`.
    """
    # |x - y|^2 = |x|^2 + |y|^2 - 2 x y, as all pairs of differences may not fit into
    # memory. Rounding could leave small numbers on the diagonal, which is set to 0.
    squares = np.einsum("atw,atw->at", scores, scores, dtype=float)
    products = np.einsum("atw,auw->atu", scores, scores, dtype=float)
    squared = squares[:, :, None] + squares[:, None, :] - 2 * products
    return np.sqrt(np.maximum(squared, 0) * ~np.eye(scores.shape[1], dtype=bool))


def hamming_distances(masks: Bool[np.ndarray, "agents tasks weights"]) -> Pairwise:
    """Return the share of weights that only one of each two tasks uses.

    The result is `[agent, task, task]`.
    """
    return np.stack(
        [(masks != masks[:, task, None]).mean(-1) for task in range(masks.shape[1])], 1
    )


def overlaps(masks: Bool[np.ndarray, "agents tasks weights"]) -> Pairwise:
    """Return the Jaccard index of each two tasks' masks.

    It is the number of weights that both tasks use, divided by the number that either
    uses, `[agent, task, task]`.
    """
    return np.stack(
        [
            _share(masks & masks[:, task, None], masks | masks[:, task, None])
            for task in range(masks.shape[1])
        ],
        1,
    )


def _share(both: np.ndarray, either: np.ndarray) -> np.ndarray:
    used = either.sum(-1)
    # Two empty masks are equal, so their index is 1, although it would be 0 / 0.
    return np.where(used > 0, both.sum(-1) / np.maximum(used, 1), 1.0)
