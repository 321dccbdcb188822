"""Curves of long lives with fewer points, and scales that fit the values."""

from collections.abc import Sequence

import numpy as np

from personae.report.data.record import Record, TrainingCurve

MAX_POINTS = 120
"""Points of a curve; a longer one is drawn as means of neighbours."""
FAR_BELOW = 0.5
"""Share of the target: values that all stay below it need a scale of their own."""


def downsample(curve: TrainingCurve) -> TrainingCurve:
    """Return a curve of few points, each the mean of as many neighbours."""
    group_size = -(-len(curve.steps) // MAX_POINTS)
    if group_size <= 1:
        return curve
    starts = np.arange(0, len(curve.steps), group_size)
    # A group without a single number stays a gap in the curve, not a zero.
    defined = np.isfinite(curve.returns)
    sums = np.add.reduceat(np.where(defined, curve.returns, 0), starts, 1)
    counts = np.add.reduceat(defined, starts, 1, dtype=int)
    means = sums / np.where(counts > 0, counts, np.nan)
    last = np.minimum(starts + group_size, len(curve.steps)) - 1
    return TrainingCurve(curve.task, curve.steps[last], means)


def top_of_returns(records: Sequence[Record]) -> float:
    """Return the end of the scale of one task's evaluation, for all methods."""
    best = max(float(np.nanmax(record.evaluations.mean(0))) for record in records)
    return _top(float(max(records[0].targets)), best)


def top_of_sums(records: Sequence[Record]) -> float:
    """Return the end of the scale of the sum over all tasks."""
    best = max(float(np.nanmax(record.evaluations.sum(-1))) for record in records)
    return _top(max(float(record.ideal_sums[-1]) for record in records), best)


def _top(ideal: float, best: float) -> float:
    """Return the ideal, or the best value if that is above it or far below it."""
    near = FAR_BELOW * ideal <= best <= ideal
    return ideal if near or best <= 0 else best
