"""Tests of intervals and tests against scipy, published numbers and counts by hand."""

import json
from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from personae.metrics import (
    Interval,
    bootstrap_difference,
    holm,
    interquartile_mean,
    mean_interval,
    probability_of_improvement,
    welch_test,
    welch_test_of_intervals,
)
from personae.report import published

ONE = np.array([702.0, 705.0, 698.0, 710.0, 695.0])
OTHER = np.array([716.0, 718.0, 717.0, 715.0, 718.0])


def test_welch_is_scipys():
    expected = stats.ttest_ind(ONE, OTHER, equal_var=False).pvalue
    assert welch_test(ONE, OTHER) == pytest.approx(expected)
    one, other = mean_interval(ONE), mean_interval(OTHER)
    assert welch_test_of_intervals(one, 5, other, 5) == pytest.approx(expected)


def test_welch_without_any_spread():
    same = np.full(5, 720.0)
    assert welch_test(same, same) == 1.0
    assert welch_test(same, same - 1) == 0.0


def published_tests():
    seeds = {name: p["seeds"] for name, p in published()["protocol"].items()}
    for curriculum, methods in published()["significance_vs_mask_lc"].items():
        for method, measures in methods.items():
            for measure, test in measures.items():
                yield curriculum, method, measure, test["welch_p"], seeds[curriculum]


def interval(curriculum, method, measure):
    columns = published()["tables"][curriculum][method]
    # ProcGen has two totals, on trained levels and on all.
    value = columns.get(measure) or columns[f"total_evaluation_{measure}"]
    return Interval(value["mean"], value["ci95"])


@pytest.mark.parametrize(
    ("curriculum", "method", "measure", "p", "seeds"), list(published_tests())
)
def test_the_papers_p_values_come_out_of_its_intervals(
    curriculum, method, measure, p, seeds
):
    if measure == "forward_transfer":
        # Printed with two digits, which moves a p-value by a factor.
        low, high = _p_values_within_rounding(curriculum, method, seeds)
        assert low <= p <= high
        return
    # With three seeds, as everywhere in this table, it would be 0.0062.
    two_seeds = (curriculum, method) == ("cw10", "mask-ri-binary")
    reference, other = (interval(curriculum, m, measure) for m in ("mask-lc", method))
    other_seeds = 2 if two_seeds else seeds
    p_value = welch_test_of_intervals(reference, seeds, other, other_seeds)
    assert p_value == pytest.approx(p, rel=0.02)


def _p_values_within_rounding(curriculum, method, seeds):
    table = published()["tables"][curriculum]
    count = seeds * len(table["mask-lc"]["steps_to_target_per_task"])
    pair = [table[name]["forward_transfer"] for name in ("mask-lc", method)]
    p_values = [
        welch_test_of_intervals(
            Interval(pair[0]["mean"] + a, pair[0]["ci95"] + b),
            count,
            Interval(pair[1]["mean"] + c, pair[1]["ci95"] + d),
            count,
        )
        for a in (-0.005, 0.005)
        for b in (-0.005, 0.005)
        for c in (-0.005, 0.005)
        for d in (-0.005, 0.005)
    ]
    return min(p_values), max(p_values)


def test_published_numbers_are_shipped_with_their_source():
    folder = resources.files("personae.report.paper")
    shipped = json.loads(folder.joinpath("published.json").read_text())
    assert "TMLR" in shipped["source"]
    assert shipped["tables"]["ct8"]["ppo"]["total_evaluation"]["mean"] == 147.0


def test_the_bootstrap_of_a_difference():
    difference = bootstrap_difference(ONE, OTHER)
    assert difference.estimate == pytest.approx(702.0 - 716.8)
    assert difference.low < difference.estimate < difference.high < 0
    reference = stats.bootstrap(
        (ONE, OTHER),
        lambda a, b, axis: a.mean(axis) - b.mean(axis),
        n_resamples=10_000,
        method="percentile",
        random_state=1,
    ).confidence_interval
    assert difference.low == pytest.approx(reference.low, abs=0.4)
    assert difference.high == pytest.approx(reference.high, abs=0.4)
    assert bootstrap_difference(ONE, OTHER) == difference


def test_the_bootstrap_of_a_mean_is_binomial():
    """Means of draws of {720, 720, 720, 719, 719} count the draws of 720."""
    exact = np.array([720.0, 720, 720, 719, 719])
    difference = bootstrap_difference(exact, np.full(5, 719.0))
    low, high = stats.binom.ppf([0.025, 0.975], 5, 0.6) / 5
    assert (difference.low, difference.high) == pytest.approx((low, high))


def test_the_interquartile_mean_leaves_out_the_outer_quarters():
    values = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 100.0]])
    mean = interquartile_mean(values, draws=500)
    assert mean.estimate == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert mean.low <= mean.estimate <= mean.high


def test_the_stratified_bootstrap_keeps_tasks_apart():
    # No seed differs, so that no draw can differ, however different the tasks are.
    values = np.tile([[0.0, 10.0, 20.0, 30.0]], (3, 1))
    mean = interquartile_mean(values, draws=200)
    assert mean.low == mean.high == mean.estimate == 15.0


def test_the_probability_of_improvement_by_counting():
    one, other = np.array([[1.0], [3.0]]), np.array([[2.0], [3.0]])
    # 1 < 2, 1 < 3, 3 > 2, 3 = 3: (0 + 0 + 1 + 0.5) / 4
    assert probability_of_improvement(one, other, draws=50).estimate == 0.375
    assert probability_of_improvement(one, one, draws=50).estimate == 0.5
    assert probability_of_improvement(other + 9, one, draws=50).low == 1.0
    incomplete = np.array([[1.0, np.nan], [3.0, np.nan]])
    assert probability_of_improvement(incomplete, incomplete, draws=50).estimate == 0.5
    no_numbers = incomplete[:, 1:]
    assert str(probability_of_improvement(no_numbers, no_numbers)) == "-"


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    # A method that could not be tested is not a success, and does not count.
    np.testing.assert_equal(holm([0.01, np.nan, 0.2]), [0.02, np.nan, 0.2])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_keeps_the_order_and_never_lowers(p_values):
    corrected = holm(p_values)
    assert all(c >= p for c, p in zip(corrected, p_values, strict=True))
    assert max(corrected) <= 1
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= -1e-12).all()


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6))
def test_an_interval_covers_its_mean(samples):
    interval = mean_interval(np.array(samples))
    assert interval.half_width >= 0
    assert interval.mean == pytest.approx(np.mean(samples))
