"""Confidence intervals of means, and tests of differences.

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
"""Number of bootstrap draws, as in the paper."""


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
    """Return the mean of samples with its Student-t interval, as the paper does.

    The half-width is t(1/2 + confidence/2, n - 1) s / sqrt(n), where s is the standard
    deviation with n - 1; it is None for a single sample.
    """
    mean = float(np.mean(samples))
    # One sample has no deviation: divided by n - 1 it would be 0 / 0.
    if len(samples) < 2:
        return Interval(mean, None)
    error = np.std(samples, ddof=1) / np.sqrt(len(samples))
    quantile = stats.t.ppf(0.5 + confidence / 2, len(samples) - 1)
    return Interval(mean, float(quantile * error))


def interval_bands(
    samples: Float[np.ndarray, "samples *points"], confidence: float = 0.95
) -> tuple[Float[np.ndarray, "*points"], Float[np.ndarray, "*points"]]:
    """Return the means over samples and their Student-t half-widths, `[*points]`.

    They are those of `mean_interval` at each point. The half-widths of a single sample
    are not numbers.
    """
    count = len(samples)
    mean = np.asarray(samples.mean(0))
    if count < 2:
        return mean, np.full_like(mean, np.nan)
    quantile = stats.t.ppf(0.5 + confidence / 2, count - 1)
    return mean, np.asarray(quantile * samples.std(0, ddof=1) / np.sqrt(count))


def welch_test(one: Samples, other: Samples) -> float:
    """Return the two-sided p-value of Welch's t-test that two means are equal.

    If neither group varies, it is 1 for equal means and 0 for different ones.
    """
    # The statistic would be 0 / 0 or infinite.
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
    """Return Welch's p-value of two means from their Student-t intervals.

    Published tables give means and intervals only; the standard deviations follow from
    the half-widths and the numbers of samples.
    """

    def deviation(interval: Interval, count: int) -> float:
        # A single sample has no interval, and its test makes no sense.
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
    """Return the difference of two means with its percentile-bootstrap interval.

    The two groups are resampled independently.
    """
    # One generator for both groups: two with one seed would draw the same seeds.
    random = np.random.default_rng(seed)
    means = _resampled_means(one, draws, random)
    differences = means - _resampled_means(other, draws, random)
    return _percentiles(float(np.mean(one) - np.mean(other)), differences, confidence)


def bootstrap_mean(
    samples: Samples, confidence: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> Range:
    """Return a mean with its percentile-bootstrap interval."""
    means = _resampled_means(samples, draws, np.random.default_rng(seed))
    return _percentiles(float(np.mean(samples)), means, confidence)


def _resampled_means(
    samples: Samples, draws: int, random: np.random.Generator
) -> np.ndarray:
    picks = random.integers(len(samples), size=(draws, len(samples)))
    return np.asarray(samples)[picks].mean(1)


def _percentiles(estimate: float, resampled: np.ndarray, confidence: float) -> Range:
    tail = 50 * (1 - confidence)
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Range(estimate, float(low), float(high))


def interquartile_mean(
    values: Float[np.ndarray, "seeds tasks"],
    confidence: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Range:
    """Return the mean of the middle half of all values (Agarwal et al., 2021).

    The values of all seeds and tasks are sorted together. The interval is from a
    stratified bootstrap, which draws the seeds of each task separately.
    """
    resampled = _stratified(values, draws, seed)
    trimmed = np.asarray(stats.trim_mean(resampled.reshape(draws, -1), 0.25, axis=1))
    estimate = float(stats.trim_mean(values, 0.25, axis=None))
    return _percentiles(estimate, trimmed, confidence)


def _stratified(
    values: Float[np.ndarray, "seeds tasks"], draws: int, seed: int
) -> Float[np.ndarray, "draws seeds tasks"]:
    random = np.random.default_rng(seed)
    # Seeds are resampled, tasks are not: the tasks of a curriculum are no sample.
    picks = random.integers(values.shape[0], size=(draws, *values.shape))
    return values[picks, np.arange(values.shape[1])]


def probability_of_improvement(
    one: Float[np.ndarray, "seeds tasks"],
    other: Float[np.ndarray, "other_seeds tasks"],
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Range:
    """Return the probability that a run of one method beats a run of the other.

    It is the share of pairs of seeds in which the first value is the larger, averaged
    over tasks with equal weight; ties count half (Agarwal et al., 2021). Tasks on which
    any value is not a number are left out. The interval is from a stratified bootstrap.
    """
    # Few draws by default, as each of them compares all pairs of seeds.
    usable = np.isfinite(one).all(0) & np.isfinite(other).all(0)
    if not usable.any():
        return Range(np.nan, np.nan, np.nan)
    one, other = one[:, usable], other[:, usable]

    def probability(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        values, other_values = one[..., :, None, :], other[..., None, :, :]
        better = (values > other_values) + 0.5 * (values == other_values)
        return np.asarray(better.mean((-3, -2, -1)))

    # The two methods need different draws: with one seed they would be paired.
    resampled = probability(
        _stratified(one, draws, seed), _stratified(other, draws, seed + 1)
    )
    return _percentiles(float(probability(one, other)), resampled, confidence)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple testing (Holm, 1979), in the same order.

    Entries that are not numbers stay so, and do not count as tests.
    """
    order = [i for i in np.argsort(p_values) if not np.isnan(p_values[i])]
    count, running = len(order), 0.0
    corrected = np.full(len(p_values), np.nan)
    for rank, index in enumerate(order):
        # The running maximum keeps the corrected values in the order of the others.
        running = max(running, (count - rank) * p_values[index])
        corrected[index] = min(running, 1.0)
    return [float(p) for p in corrected]
