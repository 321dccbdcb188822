"""How alike the masks of different tasks are (paper, appendix on mask similarity)."""

import numpy as np
from jaxtyping import Bool, Float

Pairwise = Float[np.ndarray, "agents tasks tasks"]


def l2_distances(scores: Float[np.ndarray, "agents tasks weights"]) -> Pairwise:
    """Return the norm of the difference of each two tasks' scores, as published."""
    squares = np.einsum("atw,atw->at", scores, scores, dtype=float)
    products = np.einsum("atw,auw->atu", scores, scores, dtype=float)
    squared = squares[:, :, None] + squares[:, None, :] - 2 * products
    return np.sqrt(np.maximum(squared, 0) * ~np.eye(scores.shape[1], dtype=bool))


def hamming_distances(masks: Bool[np.ndarray, "agents tasks weights"]) -> Pairwise:
    """Return the share of weights that one of two tasks uses and the other does not."""
    return np.stack(
        [(masks != masks[:, task, None]).mean(-1) for task in range(masks.shape[1])], 1
    )


def overlaps(masks: Bool[np.ndarray, "agents tasks weights"]) -> Pairwise:
    """Return what two tasks share, of all weights that either uses (Jaccard)."""
    return np.stack(
        [
            _share(masks & masks[:, task, None], masks | masks[:, task, None])
            for task in range(masks.shape[1])
        ],
        1,
    )


def _share(both: np.ndarray, either: np.ndarray) -> np.ndarray:
    used = either.sum(-1)
    # Two masks that are empty are alike.
    return np.where(used > 0, both.sum(-1) / np.maximum(used, 1), 1.0)
