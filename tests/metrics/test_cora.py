"""Tests of CORA's measures against values computed by hand."""

import numpy as np
import pytest

from personae.metrics import isolated_forgetting, isolated_transfer, smoothed


def test_smoothing_looks_back_only():
    curve = np.arange(6.0).reshape(1, 6, 1)
    np.testing.assert_allclose(smoothed(curve, window=3)[0, :, 0], [0, 0.5, 1, 2, 3, 4])
    np.testing.assert_array_equal(smoothed(curve, window=1), curve)


@pytest.fixture
def life(monkeypatch):
    """Return three tasks, two cycles and two evaluations a visit, without smoothing."""
    monkeypatch.setattr("personae.metrics.cora.smoothed", lambda curves, window: curves)
    first = [0, 4, 3, 2, 2, 1, 8, 8, 8, 8, 8, 8]
    second = [1, 2, 5, 6, 6, 3, 3, 3, 3, 3, 3, 3]
    third = [-2, -2, -1, 0, 1, 4, 4, 4, 4, 4, 4, 4]
    curves = np.array([first, second, third], float).T[None]
    return curves, np.repeat(np.arange(6), 2)


def test_forgetting_by_hand(life):
    """The loss in a later visit, as a share of the best, times ten."""
    lost = isolated_forgetting(*life)[0]
    nan = np.nan
    np.testing.assert_allclose(
        lost,
        [
            [nan, 10 * (4 - 2) / 8, 10 * (2 - 1) / 8],
            [nan, nan, 10 * (6 - 3) / 6],
            [nan, nan, nan],
        ],
    )


def test_transfer_by_hand(life):
    """The gain in an earlier visit; in the first visit it starts at the first point."""
    gained = isolated_transfer(*life)[0]
    nan = np.nan
    np.testing.assert_allclose(
        gained,
        [
            [nan, nan, nan],
            [10 * (2 - 1) / 6, nan, nan],
            [10 * (-2 + 2) / 4, 10 * (0 + 2) / 4, nan],
        ],
    )


def test_all_agents_share_the_largest_value(life):
    curves, visits = life
    both = np.concatenate([curves, 2 * curves])
    lost = isolated_forgetting(both, visits)
    np.testing.assert_allclose(lost[1, 0, 1], 10 * (4 - 2) / 8)
    np.testing.assert_allclose(lost[0, 0, 1], 10 * (4 - 2) / 16)


def test_a_life_that_is_not_over_has_gaps(life):
    curves, visits = life
    lost = isolated_forgetting(curves[:, :4], visits[:4])[0]
    assert np.isfinite(lost[0, 1])
    assert np.isnan(lost[0, 2])


@pytest.mark.parametrize("first", [4, 30])
@pytest.mark.parametrize(("second", "window"), [(2, 2), (19, 19), (30, 20)])
def test_smoothing_looks_back_no_further_than_a_visit(first, second, window):
    """Let a task lose half of its return at once, in the last two evaluations."""
    curve = np.full(first + second, 8.0)
    curve[-2:] = 4.0
    curves = np.stack([curve, np.zeros_like(curve)], -1)[None]
    lost = isolated_forgetting(curves, np.repeat([0, 1], [first, second]))
    np.testing.assert_allclose(lost[0, 0, 1], 10 * (2 * 4 / window) / 8)


def test_a_task_without_any_return_has_no_measure():
    lost = isolated_forgetting(np.zeros((1, 4, 2)), np.array([0, 0, 1, 1]))
    assert np.isnan(lost).all()
