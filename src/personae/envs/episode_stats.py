"""What episodes bring: how much they collect, and whether they succeed."""

import numpy as np
from jaxtyping import Bool, Float, Shaped

MEASURES = ("return", "success")
"""What each episode is measured by; rows of what `EpisodeStats.end` returns."""


class EpisodeStats:
    """What the running episode of each environment has brought so far."""

    def __init__(self, num: int):
        self.collected = np.zeros(num)
        self.succeeded = np.full(num, np.nan)
        """1 if at any step so far, 0 if not, not a number if nothing was told."""

    def count(
        self,
        rewards: Float[np.ndarray, " envs"],
        success: Shaped[np.ndarray, " envs"] | None,
        which: Bool[np.ndarray, " envs"],
    ) -> None:
        """Add a step of some environments; success is not a number where untold."""
        self.collected += np.where(which, rewards, 0)
        if success is not None:
            told = np.where(which, success.astype(float), np.nan)
            self.succeeded = np.fmax(self.succeeded, told)

    def end(self, ended: Bool[np.ndarray, " envs"]) -> Float[np.ndarray, "2 envs"]:
        """Return what episodes brought where they ended; elsewhere it is not a number.

        A count begins anew there.
        """
        brought = np.where(ended, np.stack([self.collected, self.succeeded]), np.nan)
        self.collected[ended] = 0
        self.succeeded[ended] = np.nan
        return brought


def mean_of_finished(
    brought: Float[np.ndarray, "2 *agents episodes"],
) -> Float[np.ndarray, "2 *agents"]:
    """Return the mean over episodes that ended; not a number where none did.

    Neither is success if an episode did not tell.
    """
    ended = np.isfinite(brought[0])
    count = ended.sum(-1)
    total = np.where(ended, brought, 0).sum(-1)
    return np.asarray(total / np.where(count > 0, count, np.nan))
