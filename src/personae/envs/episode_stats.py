"""Statistics of episodes: their returns, and whether they succeed."""

import numpy as np
from jaxtyping import Bool, Float, Shaped

MEASURES = ("return", "success")
"""The measures of an episode: the rows of the array that `EpisodeStats.end` returns."""


class EpisodeStats:
    """The return and the success so far of each environment's running episode."""

    def __init__(self, num: int):
        self.returns = np.zeros(num)
        self.success = np.full(num, np.nan)
        """1 after a success at any step, 0 without one, NaN if it is not reported."""

    def count(
        self,
        rewards: Float[np.ndarray, " envs"],
        success: Shaped[np.ndarray, " envs"] | None,
        mask: Bool[np.ndarray, " envs"],
    ) -> None:
        """Add one step of the environments in the mask.

        Args:
            rewards: Reward of the step.
            success: Whether the step succeeded; NaN where it is not reported, None if
                no environment reports it.
            mask: The environments whose step counts.
        """
        self.returns += np.where(mask, rewards, 0)
        if success is not None:
            # fmax ignores NaN: one report of success or failure replaces it for good.
            reported = np.where(mask, success.astype(float), np.nan)
            self.success = np.fmax(self.success, reported)

    def end(self, ended: Bool[np.ndarray, " envs"]) -> Float[np.ndarray, "2 envs"]:
        """Return the measures of the episodes that ended, NaN for all others.

        The environments whose episode ended start again from zero.
        """
        measures = np.where(ended, np.stack([self.returns, self.success]), np.nan)
        self.returns[ended] = 0
        self.success[ended] = np.nan
        return measures


def mean_of_finished(
    measures: Float[np.ndarray, "2 *agents episodes"],
) -> Float[np.ndarray, "2 *agents"]:
    """Return the mean over the episodes that ended; NaN if none did.

    The mean success is NaN too if one of these episodes did not report it.
    """
    # The return is NaN exactly where no episode ended, so it tells these apart; a NaN
    # of success in an episode that did end must reach the mean.
    ended = np.isfinite(measures[0])
    count = ended.sum(-1)
    total = np.where(ended, measures, 0).sum(-1)
    return np.asarray(total / np.where(count > 0, count, np.nan))
