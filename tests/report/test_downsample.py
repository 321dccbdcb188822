"""Tests of curves with fewer points and of scales that fit the values."""

import numpy as np
import pytest

from personae.report.data.record import TrainingCurve
from personae.report.render.downsample import (
    MAX_POINTS,
    downsample,
    top_of_returns,
    top_of_sums,
)
from personae.report.render.figures import lifelong_curves, steps_bars


def test_short_curves_do_not_change():
    curve = TrainingCurve("a", np.arange(MAX_POINTS), np.ones((2, MAX_POINTS)))
    assert downsample(curve) is curve


def test_long_curves_are_means_of_neighbours():
    number = 2 * MAX_POINTS - 1
    returns = np.stack([np.arange(number), np.full(number, 3)]).astype(float)
    returns[0, 2:4] = np.nan
    returns[1, 0] = np.nan
    curve = downsample(TrainingCurve("a", 10 * (1 + np.arange(number)), returns))
    assert len(curve.steps) == MAX_POINTS
    np.testing.assert_array_equal(curve.steps[:3], [20, 40, 60])
    np.testing.assert_array_equal(curve.returns[0, :3], [0.5, np.nan, 4.5])
    assert (curve.returns[1] == 3).all()
    assert (curve.steps[-1], curve.returns[0, -1]) == (
        10 * number,
        number - 1,
    )


@pytest.mark.parametrize(
    ("best", "top"), [(0.4, 0.4), (0.6, 1.0), (0.9, 1.0), (1.5, 1.5), (0.0, 1.0)]
)
def test_scales_end_at_the_target_unless_all_stay_far_below(lives, best, top):
    record = lives["mask-ri"]
    highest = record.evaluations.mean(0).max()
    low = record.evaluations * best / highest
    assert record.targets.max() == 1
    changed = type(record)(**{**vars(record), "evaluations": low})
    assert top_of_returns([changed]) == pytest.approx(top)


def test_the_best_method_sets_the_scale(lives):
    record = lives["mask-ri"]
    ideal = record.ideal_sums[-1]
    far = type(record)(**{**vars(record), "evaluations": record.evaluations * 0})
    full = np.ones_like(record.evaluations)
    best = type(record)(**{**vars(record), "evaluations": full})
    assert top_of_sums([far, best]) == ideal


@pytest.mark.parametrize(("best", "fits"), [(0.0, False), (1.0, True)])
def test_the_ideal_is_named_only_where_it_is_drawn(lives, best, fits):
    record = lives["mask-ri"]
    evaluations = np.full_like(record.evaluations, best)
    evaluations[:, 0] = 0.1
    changed = type(record)(**{**vars(record), "evaluations": evaluations})
    figure = lifelong_curves([changed])
    (axes,), (legend,) = figure.axes, figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["ideal"] * fits + ["mask-ri"]
    assert len(axes.get_lines()) >= len(names)


def test_tasks_that_never_reach_their_target_are_hatched(lives):
    record = lives["mask-ri"]
    first, *others = record.training
    reached = type(first)(first.task, first.steps, np.ones_like(first.returns))
    failed = [type(c)(c.task, c.steps, np.zeros_like(c.returns)) for c in others]
    training = (reached, *failed)
    changed = type(record)(**{**vars(record), "training": training})
    (axes,) = steps_bars([changed]).axes
    bars = axes.patches
    assert [bar.get_hatch() for bar in bars] == [None] + ["////"] * len(others)
    ends = [curve.steps[-1] / 1000 for curve in others]
    assert [bar.get_height() for bar in bars] == [first.steps[0] / 1000, *ends]
    assert "(hatched: never)" in axes.get_ylabel()
    going = {**record.run, "status": "running"}
    changed = type(record)(**{**vars(record), "training": training, "run": going})
    (axes,) = steps_bars([changed]).axes
    assert len(axes.patches) == len(training) - 1  # the last one may yet get there
