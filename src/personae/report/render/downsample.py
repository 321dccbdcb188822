"""What makes pictures of long lives legible: fewer points, and scales that fit."""

from collections.abc import Sequence

import numpy as np

from personae.report.data.record import Record, TrainingCurve

MOST_POINTS = 120
"""Points of a curve; a longer one is drawn as means of neighbours."""
FAR_BELOW = 0.5
"""Share of the target below which a scale that ends there shows nothing."""


def thinned(curve: TrainingCurve) -> TrainingCurve:
    """Return a curve of few points, each the mean of as many neighbours."""
    each = -(-len(curve.steps) // MOST_POINTS)
    if each <= 1:
        return curve
    starts = np.arange(0, len(curve.steps), each)
    known = np.isfinite(curve.returns)
    sums = np.add.reduceat(np.where(known, curve.returns, 0), starts, 1)
    counts = np.add.reduceat(known, starts, 1, dtype=int)
    means = sums / np.where(counts > 0, counts, np.nan)
    last = np.minimum(starts + each, len(curve.steps)) - 1
    return TrainingCurve(curve.task, curve.steps[last], means)


def top_of_returns(records: Sequence[Record]) -> float:
    """Return where the scale of one task's evaluation ends, for all methods."""
    best = max(float(np.nanmax(record.evaluations.mean(0))) for record in records)
    return _top(float(max(records[0].targets)), best)


def top_of_sums(records: Sequence[Record]) -> float:
    """Return where the scale of the sum over all tasks ends."""
    best = max(float(np.nanmax(record.evaluations.sum(-1))) for record in records)
    return _top(max(float(record.ideal_sums[-1]) for record in records), best)


def _top(ideal: float, best: float) -> float:
    """Return the ideal, or the best there was if that is above or far below."""
    near = FAR_BELOW * ideal <= best <= ideal
    return ideal if near or best <= 0 else best
