"""Uncertainty of means, and how sure a difference is.

Samples are seeds unless a caller says otherwise. All resampling is seeded, so that the
same runs give the same numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

Samples = Float[np.ndarray, " samples"]
DRAWS = 10_000
"""Bootstrap draws, as many as in the paper."""


class Interval(NamedTuple):
    """A mean and the half-width of its confidence interval (None for one sample)."""

    mean: float
    half_width: float | None

    def __str__(self) -> str:
        if np.isnan(self.mean):
            return "-"
        if self.half_width is None:
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} ± {self.half_width:.2f}"


class Range(NamedTuple):
    """An estimate with the two ends of its confidence interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        if np.isnan(self.estimate):
            return "-"
        return f"{self.estimate:.2f} [{self.low:.2f}, {self.high:.2f}]"


def mean_interval(samples: Samples, confidence: float = 0.95) -> Interval:
    """Return the mean with its Student-t interval, as the paper reports it."""
    mean = float(np.mean(samples))
    if len(samples) < 2:
        return Interval(mean, None)
    error = np.std(samples, ddof=1) / np.sqrt(len(samples))
    quantile = stats.t.ppf(0.5 + confidence / 2, len(samples) - 1)
    return Interval(mean, float(quantile * error))


def interval_bands(
    samples: Float[np.ndarray, "samples *points"], confidence: float = 0.95
) -> tuple[Float[np.ndarray, "*points"], Float[np.ndarray, "*points"]]:
    """Return means over samples and their half-widths, point by point.

    The half-widths of a single sample are not numbers.
    """
    count = len(samples)
    mean = np.asarray(samples.mean(0))
    if count < 2:
        return mean, np.full_like(mean, np.nan)
    quantile = stats.t.ppf(0.5 + confidence / 2, count - 1)
    return mean, np.asarray(quantile * samples.std(0, ddof=1) / np.sqrt(count))


def welch_test(one: Samples, other: Samples) -> float:
    """Return the two-sided p-value of Welch's t-test that two means are equal.

    Where neither group varies there is no doubt: 1 for equal means, 0 for others.
    """
    if np.ptp(one) == np.ptp(other) == 0:
        return float(one[0] == other[0])
    return _welch(*_moments(one), *_moments(other))


def _moments(samples: Samples) -> tuple[float, float, int]:
    return float(np.mean(samples)), float(np.std(samples, ddof=1)), len(samples)


def _welch(
    mean: float,
    deviation: float,
    count: int,
    other_mean: float,
    other_deviation: float,
    other_count: int,
) -> float:
    groups = (mean, deviation, count, other_mean, other_deviation, other_count)
    return float(stats.ttest_ind_from_stats(*groups, equal_var=False).pvalue)


def welch_test_of_intervals(
    one: Interval,
    one_count: int,
    other: Interval,
    other_count: int,
    confidence: float = 0.95,
) -> float:
    """Return Welch's p-value from two means with their Student-t intervals."""

    def deviation(interval: Interval, count: int) -> float:
        assert interval.half_width is not None
        quantile = stats.t.ppf(0.5 + confidence / 2, count - 1)
        return float(interval.half_width / quantile * np.sqrt(count))

    return _welch(
        one.mean,
        deviation(one, one_count),
        one_count,
        other.mean,
        deviation(other, other_count),
        other_count,
    )


def bootstrap_difference(
    one: Samples,
    other: Samples,
    confidence: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Range:
    """Return the difference of two means with its percentile-bootstrap interval."""
    random = np.random.default_rng(seed)
    render_frame = _resampled_means(one, draws, random) - _resampled_means(
        other, draws, random
    )
    return _percentiles(float(np.mean(one) - np.mean(other)), render_frame, confidence)


def bootstrap_mean(
    samples: Samples, confidence: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> Range:
    """Return a mean with its percentile-bootstrap interval."""
    render_frame = _resampled_means(samples, draws, np.random.default_rng(seed))
    return _percentiles(float(np.mean(samples)), render_frame, confidence)


def _resampled_means(
    samples: Samples, draws: int, random: np.random.Generator
) -> np.ndarray:
    picks = random.integers(len(samples), size=(draws, len(samples)))
    return np.asarray(samples)[picks].mean(1)


def _percentiles(estimate: float, render_frame: np.ndarray, confidence: float) -> Range:
    tail = 50 * (1 - confidence)
    low, high = np.percentile(render_frame, [tail, 100 - tail])
    return Range(estimate, float(low), float(high))


def interquartile_mean(
    scores: Float[np.ndarray, "seeds tasks"],
    confidence: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Range:
    """Return the mean of the middle half of all scores (Agarwal et al., 2021).

    Its interval is from a stratified bootstrap: seeds are drawn for each task apart.
    """
    render_frame = _stratified(scores, draws, seed)
    trimmed = np.asarray(stats.trim_mean(render_frame.reshape(draws, -1), 0.25, axis=1))
    estimate = float(stats.trim_mean(scores, 0.25, axis=None))
    return _percentiles(estimate, trimmed, confidence)


def _stratified(scores: np.ndarray, draws: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    picks = random.integers(scores.shape[0], size=(draws, *scores.shape))
    return scores[picks, np.arange(scores.shape[1])]


def probability_of_improvement(
    one: Float[np.ndarray, "seeds tasks"],
    other: Float[np.ndarray, "other_seeds tasks"],
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Range:
    """Return how probably a run of one does better on a task than a run of the other.

    Ties count half; tasks count alike (Agarwal et al., 2021), but for those where a
    score is not a number, which do not count. Its interval is from a stratified
    bootstrap.
    """
    known = np.isfinite(one).all(0) & np.isfinite(other).all(0)
    if not known.any():
        return Range(np.nan, np.nan, np.nan)
    one, other = one[:, known], other[:, known]

    def probability(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        ours, theirs = one[..., :, None, :], other[..., None, :, :]
        better = (ours > theirs) + 0.5 * (ours == theirs)
        return np.asarray(better.mean((-3, -2, -1)))

    render_frame = probability(
        _stratified(one, draws, seed), _stratified(other, draws, seed + 1)
    )
    return _percentiles(float(probability(one, other)), render_frame, confidence)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for being several (Holm, 1979), in the given order.

    What is not a number stays so, and counts for nothing.
    """
    order = [i for i in np.argsort(p_values) if not np.isnan(p_values[i])]
    count, running = len(order), 0.0
    corrected = np.full(len(p_values), np.nan)
    for rank, index in enumerate(order):
        running = max(running, (count - rank) * p_values[index])
        corrected[index] = min(running, 1.0)
    return [float(p) for p in corrected]
