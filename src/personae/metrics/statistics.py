"""Uncertainty of a mean."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats


class Interval(NamedTuple):
    """A mean and the half-width of its confidence interval (None for one sample)."""

    mean: float
    half_width: float | None

    def __str__(self) -> str:
        if self.half_width is None:
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} ± {self.half_width:.2f}"


def mean_interval(
    samples: Float[np.ndarray, " samples"], confidence: float = 0.95
) -> Interval:
    """Return the mean with its Student-t interval, as the paper reports it."""
    mean = float(np.mean(samples))
    if len(samples) < 2:
        return Interval(mean, None)
    error = np.std(samples, ddof=1) / np.sqrt(len(samples))
    quantile = stats.t.ppf(0.5 + confidence / 2, len(samples) - 1)
    return Interval(mean, float(quantile * error))
