"""What episodes bring: how much they collect, and whether they succeed."""

import numpy as np
from jaxtyping import Bool, Float

MEASURES = ("return", "success")
"""What each episode is measured by; rows of what `Tally.end` returns."""


class Tally:
    """What the running episode of each environment has brought so far."""

    def __init__(self, num: int):
        self.collected = np.zeros(num)
        self.succeeded = np.zeros(num, bool)
        """At any step so far."""

    def count(
        self,
        rewards: Float[np.ndarray, " envs"],
        success: Bool[np.ndarray, " envs"] | None,
        which: Bool[np.ndarray, " envs"],
    ) -> None:
        """Add a step of some environments."""
        self.collected += np.where(which, rewards, 0)
        if success is not None:
            self.succeeded |= success & which

    def end(self, ended: Bool[np.ndarray, " envs"]) -> Float[np.ndarray, "2 envs"]:
        """Return what episodes brought where they ended; elsewhere it is not a number.

        A count begins anew there.
        """
        brought = np.where(ended, np.stack([self.collected, self.succeeded]), np.nan)
        self.collected[ended] = 0
        self.succeeded[ended] = False
        return brought
